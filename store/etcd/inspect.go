package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
)

// Inspect describes the cluster: the identity that the first store wrote below the prefix, the
// version of the member that answers, and what an operator should know.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	info := driver.Info{}
	key := s.prefix + "id"
	resp, err := s.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{created(key, 0)},
		Success: []*pb.RequestOp{put(key, []byte(rand.Text()), 0), get(key)},
		Failure: []*pb.RequestOp{get(key)},
	})
	switch {
	case err == nil:
		info.Identity = "etcd:" + string(resp.Responses[len(resp.Responses)-1].GetResponseRange().Kvs[0].Value)
	case ctx.Err() != nil || !errors.Is(err, driver.ErrUnavailable):
		return info, err
	default: // such as a full database: the findings say why
		info.Findings = append(info.Findings, driver.Finding{
			Level: driver.LevelDanger, What: "the cluster refuses to write: " + err.Error(),
			Means: "no lock can be acquired; locks that are held are renewed and released",
			Cure:  "see the other findings, and the log of the members",
		})
	}
	maintenance := pb.NewMaintenanceClient(s.client.ActiveConnection())
	if st, err := maintenance.Status(ctx, &pb.StatusRequest{}); err != nil {
		info.Findings = append(info.Findings, unseen("the version, the leader and the alarms", outcome(ctx, err, true)))
	} else {
		info.Version = "etcd " + st.Version
		info.Findings = append(info.Findings, versionFinding(st.Version))
		info.Findings = append(info.Findings, statusFindings(st)...)
	}
	cluster := pb.NewClusterClient(s.client.ActiveConnection())
	if ml, err := cluster.MemberList(ctx, &pb.MemberListRequest{}); err != nil {
		info.Findings = append(info.Findings, unseen("the number of members", outcome(ctx, err, true)))
	} else {
		info.Findings = append(info.Findings, memberFinding(ml.Members))
	}
	info.Findings = append(info.Findings, s.leastFinding(ctx))
	return info, ctx.Err()
}

func unseen(what string, err error) driver.Finding {
	return driver.Finding{
		Level: driver.LevelUnknown, What: what + ": " + err.Error(),
		Means: "this was not checked", Cure: "let an administrator run the check",
	}
}

// versionFinding compares with the first versions whose leader checks that it still is the leader
// before it keeps a lease alive: 3.5.13, 3.6.0.
func versionFinding(version string) driver.Finding {
	var n [3]int
	for i, part := range strings.SplitN(strings.SplitN(version, "-", 2)[0], ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	if n[0] > 3 || n[0] == 3 && (n[1] > 5 || n[1] == 5 && n[2] >= 13) {
		return driver.Finding{Level: driver.LevelOK, What: "the version is " + version}
	}
	return driver.Finding{
		Level: driver.LevelDanger, What: "the version is " + version,
		Means: "a leader that was replaced may keep claims alive that the new leader ends: two processes may hold one lock",
		Cure:  "upgrade to etcd 3.5.13 or later",
	}
}

// statusFindings read what a member reports about itself.
func statusFindings(st *pb.StatusResponse) (all []driver.Finding) {
	for _, e := range st.Errors {
		all = append(all, driver.Finding{
			Level: driver.LevelDanger, What: "a member reports: " + e,
			Means: "with NOSPACE no lock can be acquired; with CORRUPT or without a leader none is safe",
			Cure:  "for NOSPACE: compact, defragment, then etcdctl alarm disarm; see the log of the members",
		})
	}
	if st.Leader == 0 && len(st.Errors) == 0 {
		all = append(all, driver.Finding{
			Level: driver.LevelDanger, What: "the member that answers sees no leader",
			Means: "no lock can be acquired or renewed through it", Cure: "start a majority of the members",
		})
	}
	if st.IsLearner {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: "the member that answers is a learner",
			Means: "it refuses most calls", Cure: "leave learners out of the URL",
		})
	}
	if used, quota := st.DbSize, st.DbSizeQuota; quota > 0 && used > quota/10*8 {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("the database has %d of %d MiB", used>>20, quota>>20),
			Means: "when it is full, no lock can be acquired",
			Cure:  "turn on --auto-compaction-retention, defragment, or raise --quota-backend-bytes",
		})
	}
	return all
}

func memberFinding(members []*pb.Member) driver.Finding {
	n := 0
	for _, m := range members {
		if !m.IsLearner {
			n++
		}
	}
	what := fmt.Sprintf("the cluster has %d voting members", n)
	switch {
	case n == 1:
		return driver.Finding{
			Level: driver.LevelWarning, What: "the cluster has one voting member",
			Means: "while it is down, no lock can be acquired or renewed", Cure: "run three or five members",
		}
	case n%2 == 0:
		return driver.Finding{
			Level: driver.LevelWarning, What: what,
			Means: "it survives no more failures than with one member less", Cure: "run an odd number of members",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: what}
}

// leastFinding compares the least TTL of the server with the one that the store declares.
func (s *Store) leastFinding(ctx context.Context) driver.Finding {
	l, err := s.grant(ctx, 1)
	if err != nil {
		return unseen("the least TTL of the server", err)
	}
	s.revoke(l.id)
	declared := s.feature.MinTTL
	if got := fmt.Sprintf("the least TTL of the server is %d s", l.seconds); l.seconds*1e9 > int64(declared) {
		return driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("%s, and the store declares %v", got, declared),
			Means: "claims and queue entries of a shorter TTL live longer than that",
			Cure:  fmt.Sprintf("set lock_min_ttl=%ds in the URL, or Options.MinTTL", l.seconds),
		}
	} else {
		return driver.Finding{Level: driver.LevelOK, What: got}
	}
}

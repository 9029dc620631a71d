package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/distlock/distlock/driver"
)

// errNoLease says that the lease of a transaction has ended. The transaction changed nothing.
var errNoLease = errors.New("etcd: the lease has ended")

// refusals are errors of a server that has certainly not served the request. A server without a
// leader returns "no leader" before it proposes; every timeout, and "leader changed", may come
// after.
var refusals = map[string]bool{}

func init() {
	for _, err := range []error{
		rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCNoLeader,
		rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthFailed,
		rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCNotCapable,
		rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCCorrupt, rpctypes.ErrGRPCRequestTooLarge,
		rpctypes.ErrGRPCTooManyOps, rpctypes.ErrGRPCUnhealthy,
	} {
		refusals[rpctypes.ErrorDesc(err)] = true
	}
}

// outcome returns the error of a call in the words of the contract. If the call was not sent, it
// changed nothing.
func outcome(ctx context.Context, err error, sent bool) error {
	if err == nil {
		return nil
	}
	desc := rpctypes.ErrorDesc(err)
	switch {
	case refusals[desc]:
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, desc)
	case desc == rpctypes.ErrorDesc(rpctypes.ErrGRPCLeaseNotFound):
		return errNoLease
	case ctx.Err() != nil:
		return fmt.Errorf("etcd: %w", ctx.Err())
	case !sent && status.Code(err) == codes.Unavailable:
		return fmt.Errorf("%w: etcd: %s", driver.ErrUnavailable, desc)
	}
	return fmt.Errorf("etcd: %w", err)
}

// unknown reports whether a call that returned err may have taken effect.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, errNoLease)
}

// txn makes a transaction. Its answer may be longer than the 4 MiB of gRPC: some dozens of claims
// or queue entries with long values are. So do the calls of the client library.
func (s *Store) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	var p peer.Peer // has an address if a connection was chosen, so that something may have been sent
	resp, err := s.kv.Txn(ctx, r, grpc.Peer(&p), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	return resp, outcome(ctx, err, p.Addr != nil)
}

// remove deletes a key. It answers as a transaction does.
func (s *Store) remove(ctx context.Context, key string) (*pb.TxnResponse, error) {
	var p peer.Peer
	resp, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)}, grpc.Peer(&p))
	if err = outcome(ctx, err, p.Addr != nil); err != nil {
		return nil, err
	}
	op := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: resp}}
	return &pb.TxnResponse{Header: resp.Header, Succeeded: true, Responses: []*pb.ResponseOp{op}}, nil
}

// The parts of a transaction.

func put(key string, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: lease},
	}}
}

func del(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
	}}
}

func get(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(key)}}}
}

// all returns every key that begins with prefix, and count only their number.

func all(prefix string) *pb.RequestOp { return below(prefix, false) }

func count(prefix string) *pb.RequestOp { return below(prefix, true) }

func below(prefix string, only bool) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: []byte(prefix), RangeEnd: []byte(after(prefix)), CountOnly: only,
	}}}
}

// absent holds if no key begins with prefix.
func absent(prefix string) *pb.Compare {
	c := created(prefix, 0)
	c.RangeEnd = []byte(after(prefix))
	return c
}

// created holds if the key was created by this revision; 0: if there is no such key.
func created(key string, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision},
	}
}

// unchanged holds if the key was last changed by this revision.
func unchanged(key string, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision},
	}
}

// noneChanged holds if every key that begins with prefix is as old as this revision, and
// noneCreated if every such key was created by then. Both hold if keys were deleted.

func noneChanged(prefix string, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(prefix), RangeEnd: []byte(after(prefix)), Target: pb.Compare_MOD, Result: pb.Compare_LESS,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1},
	}
}

func noneCreated(prefix string, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(prefix), RangeEnd: []byte(after(prefix)), Target: pb.Compare_CREATE, Result: pb.Compare_LESS,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision + 1},
	}
}

// Package message converts between the contract of stores, package driver, and the messages of the
// lock server's API. The server and its client, package store/remote, share it.
package message

import (
	"maps"
	"slices"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
)

// StoreHeader is the HTTP header with the identity of a store: in every answer of a server, and in
// every call of a client that knows it.
const StoreHeader = "Distlock-Store"

// ID returns a claim's ID as a message, and IDOf the ID in a message.
func ID(id driver.ID) *api.ID { return &api.ID{Key: []byte(id.Key), Owner: []byte(id.Owner)} }

// IDOf is the reverse of [ID].
func IDOf(m *api.ID) driver.ID {
	return driver.ID{Key: string(m.GetKey()), Owner: string(m.GetOwner())}
}

// Request returns a request as a message.
func Request(r driver.Request) *api.AcquireRequest {
	return &api.AcquireRequest{
		Id: ID(r.ID), Weight: r.Weight, Limit: r.Limit, TtlNs: int64(r.TTL), QueueTtlNs: int64(r.QueueTTL),
		Floor: r.Floor, Holder: []byte(r.Holder), Task: []byte(r.Task), Meta: meta(r.Meta), Value: r.Value,
	}
}

// RequestOf is the reverse of [Request].
func RequestOf(m *api.AcquireRequest) driver.Request {
	return driver.Request{
		ID: IDOf(m.GetId()), Weight: m.GetWeight(), Limit: m.GetLimit(), TTL: time.Duration(m.GetTtlNs()),
		QueueTTL: time.Duration(m.GetQueueTtlNs()), Floor: m.GetFloor(), Holder: string(m.GetHolder()),
		Task: string(m.GetTask()), Meta: metaOf(m.GetMeta()), Value: m.GetValue(),
	}
}

// Result returns the answer to a request as a message.
func Result(r driver.Result) *api.AcquireResponse {
	m := &api.AcquireResponse{
		Granted: r.Granted, Fresh: r.Fresh, Fence: r.Fence, Used: r.Used, Ahead: int64(r.Ahead),
		Behind: int64(r.Behind), RetryNs: int64(r.Retry), AgeNs: int64(r.Age),
	}
	if r.Blocker.Key != "" {
		m.Blocker = Claim(r.Blocker)
	}
	return m
}

// ResultOf is the reverse of [Result].
func ResultOf(m *api.AcquireResponse) driver.Result {
	r := driver.Result{
		Granted: m.GetGranted(), Fresh: m.GetFresh(), Fence: m.GetFence(), Used: m.GetUsed(), Ahead: int(m.GetAhead()),
		Behind: int(m.GetBehind()), Retry: time.Duration(m.GetRetryNs()), Age: time.Duration(m.GetAgeNs()),
	}
	if m.GetBlocker() != nil {
		r.Blocker = ClaimOf(m.GetBlocker())
	}
	return r
}

// Claim returns a claim as a message.
func Claim(c driver.Claim) *api.Claim {
	return &api.Claim{
		Key: []byte(c.Key), Owner: c.Owner, Weight: c.Weight, Limit: c.Limit, Fence: c.Fence, Holder: []byte(c.Holder),
		Task: []byte(c.Task), Meta: meta(c.Meta), Value: c.Value, HeldNs: int64(c.Held), LeftNs: int64(c.Left),
		Waiting: c.Waiting, Kept: c.Kept,
	}
}

// ClaimOf is the reverse of [Claim].
func ClaimOf(m *api.Claim) driver.Claim {
	return driver.Claim{
		Key: string(m.GetKey()), Owner: m.GetOwner(), Weight: m.GetWeight(), Limit: m.GetLimit(), Fence: m.GetFence(),
		Holder: string(m.GetHolder()), Task: string(m.GetTask()), Meta: metaOf(m.GetMeta()), Value: m.GetValue(),
		Held: time.Duration(m.GetHeldNs()), Left: time.Duration(m.GetLeftNs()), Waiting: m.GetWaiting(), Kept: m.GetKept(),
	}
}

// Claims returns claims as messages.
func Claims(cs []driver.Claim) (ms []*api.Claim) {
	for _, c := range cs {
		ms = append(ms, Claim(c))
	}
	return ms
}

// ClaimsOf is the reverse of [Claims].
func ClaimsOf(ms []*api.Claim) (cs []driver.Claim) {
	for _, m := range ms {
		cs = append(cs, ClaimOf(m))
	}
	return cs
}

// Renewal returns a renewal as a message.
func Renewal(r driver.Renewal) *api.Renewal {
	return &api.Renewal{Id: ID(r.ID), TtlNs: int64(r.TTL), Value: r.Value, Keep: r.Keep}
}

// RenewalOf is the reverse of [Renewal].
func RenewalOf(m *api.Renewal) driver.Renewal {
	return driver.Renewal{ID: IDOf(m.GetId()), TTL: time.Duration(m.GetTtlNs()), Value: m.GetValue(), Keep: m.GetKeep()}
}

// Features returns the features of a store as a message.
func Features(f driver.Features) *api.FeaturesResponse {
	return &api.FeaturesResponse{
		Name: f.Name, Fence: f.Fence, Floor: f.Floor, Count: f.Count, Queue: f.Queue, Value: f.Value, Keep: f.Keep,
		Expiry: f.Expiry, Detached: f.Detached, AnyServer: f.AnyServer, MinTtlNs: int64(f.MinTTL),
		MaxTtlNs: int64(f.MaxTTL), MaxTtlOption: f.MaxTTLOption, Batch: f.Batch,
	}
}

// FeaturesOf is the reverse of [Features].
func FeaturesOf(m *api.FeaturesResponse) driver.Features {
	return driver.Features{
		Name: m.GetName(), Fence: m.GetFence(), Floor: m.GetFloor(), Count: m.GetCount(), Queue: m.GetQueue(),
		Value: m.GetValue(), Keep: m.GetKeep(), Expiry: m.GetExpiry(), Detached: m.GetDetached(),
		AnyServer: m.GetAnyServer(), MinTTL: time.Duration(m.GetMinTtlNs()), MaxTTL: time.Duration(m.GetMaxTtlNs()),
		MaxTTLOption: m.GetMaxTtlOption(), Batch: m.GetBatch(),
	}
}

// Info returns the condition of a store as a message.
func Info(i driver.Info) *api.InspectResponse {
	m := &api.InspectResponse{Identity: valid(i.Identity), Server: valid(i.Server), AgeNs: int64(i.Age), Version: valid(i.Version)}
	for _, f := range i.Findings {
		m.Findings = append(m.Findings, &api.Finding{
			Level: api.Finding_Level(f.Level), What: valid(f.What), Means: valid(f.Means), Cure: valid(f.Cure),
		})
	}
	return m
}

// InfoOf is the reverse of [Info].
func InfoOf(m *api.InspectResponse) driver.Info {
	i := driver.Info{Identity: m.GetIdentity(), Server: m.GetServer(), Age: time.Duration(m.GetAgeNs()), Version: m.GetVersion()}
	for _, f := range m.GetFindings() {
		i.Findings = append(i.Findings, driver.Finding{
			Level: driver.Level(f.GetLevel()), What: f.GetWhat(), Means: f.GetMeans(), Cure: f.GetCure(),
		})
	}
	return i
}

func meta(all map[string]string) (ms []*api.Meta) {
	for _, k := range slices.Sorted(maps.Keys(all)) {
		ms = append(ms, &api.Meta{Key: []byte(k), Value: []byte(all[k])})
	}
	return ms
}

func metaOf(ms []*api.Meta) map[string]string {
	if len(ms) == 0 {
		return nil
	}
	all := make(map[string]string, len(ms))
	for _, m := range ms {
		all[string(m.GetKey())] = string(m.GetValue())
	}
	return all
}

package redis

import (
	"context"
	"time"
)

// A Client is what the store needs of a Redis client. Packages goredis and rueidis make one of theirs; whoever
// uses another client writes these methods, and runs package drivertest over the result.
//
// A command is sent once. A client never sends one again because the answer did not come: the store does
// not know then whether the script ran, and says so. MOVED and ASK may be followed, since
// the node that says so has done nothing. A call ends when its ctx does.
//
// An error that the server answered is a ReplyError. One that is sure to have changed nothing, such
// as a connection that could not be made, is a driver.ErrUnavailable. All others leave open what happened.
type Client interface {
	// Run runs a script on the node that has its keys. The answer is a string.
	Run(ctx context.Context, c Call) (string, error)

	// RunWait is Run, and then WAIT on the same connection: it also returns how many replicas have what the
	// script wrote, after all of so many have it or the time is over. An error beside a text is one of WAIT: the script has
	// run, and that is what it answered.
	RunWait(ctx context.Context, c Call, replicas int, within time.Duration) (text string, have int, err error)

	// RunAll runs many scripts in one round trip for each node, and gives one answer each, in order.
	RunAll(ctx context.Context, cs []Call) []Answer

	// Each calls f for every primary node, one after the other, until one returns an error.
	Each(ctx context.Context, f func(Node) error) error

	// Receive subscribes to a channel, calls up whenever the subscription is in force, at first and after it was made
	// anew, and news for every message. It returns when ctx is over or the subscription is lost. The two
	// functions do not block.
	Receive(ctx context.Context, channel string, sharded bool, up func(), news func(message string)) error

	// Cluster tells whether this is a client of a Redis Cluster.
	Cluster() bool

	// Close ends what the adapter has opened itself. It does not close the client that it was given.
	Close() error
}

// A Node is one server.
type Node interface {
	// Do sends a command. The answer is a string, an int64, nil or a []any of these; a map is the list of its keys and values.
	Do(ctx context.Context, args ...string) (any, error)
}

// A Call is one run of a script. Keys and Args are used again after the call: a client keeps no hold of the slices.
type Call struct {
	Verb   string // EVALSHA, or EVAL
	Script string // its SHA-1, or its text
	Keys   []string
	Args   []string

	// Renewal says that claims depend on this call. It must not have to wait for a connection until others are done.
	Renewal bool
}

// An Answer is the answer to one Call of many.
type Answer struct {
	Text string
	Err  error
}

// A ReplyError is an error that the server answered, such as "READONLY You can't write against a read only replica.".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

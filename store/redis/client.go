package redis

import (
	"context"
	"time"
)

// A Client is the part of a Redis client that the store needs. Packages goredisstore and
// rueidisstore implement it. To use another client, implement these methods, and run package
// drivertest on the resulting store; [Calls] helps with a client that does not observe ctx.
//
// A client sends a command once. It never sends a command again because the answer did not come:
// then the store does not know whether the script ran, and reports that. A client may follow MOVED
// and ASK, since the node that answers so has done nothing. A call ends when its ctx ends.
//
// An error that the server answered is a [ReplyError]. An error that certainly changed nothing,
// such as a connection that could not be made, is a [driver.ErrUnavailable]. All other errors leave
// the outcome unknown.
type Client interface {
	// Run runs a script on the node that has its keys. The answer is a string.
	Run(ctx context.Context, c Call) (string, error)

	// RunWait is Run, followed by WAIT on the same connection. It also returns how many replicas
	// have what the script wrote, as soon as all of the wanted number have it or the time has
	// passed. An error together with a text is an error of WAIT: the script has run, and the text
	// is its answer.
	RunWait(ctx context.Context, c Call, replicas int, within time.Duration) (text string, have int, err error)

	// RunAll runs many scripts in one round trip per node, and returns one answer each, in order.
	RunAll(ctx context.Context, cs []Call) []Answer

	// Each calls f for every primary node, one after the other, until one returns an error.
	Each(ctx context.Context, f func(Node) error) error

	// Receive subscribes to a channel. It calls up whenever the subscription becomes active, at
	// first and after each reconnect, and calls news for every message. It returns when ctx ends or
	// the subscription is lost. up and news do not block.
	Receive(ctx context.Context, channel string, sharded bool, up func(), news func(message string)) error

	// Cluster reports whether this is a client of a Redis Cluster.
	Cluster() bool

	// Close closes what the adapter has opened itself. It does not close the client that it was
	// given.
	Close() error
}

// A Node is one server.
type Node interface {
	// Do sends a command. The answer is a string, an int64, nil or a []any of these. A map is a
	// list of its keys and values.
	Do(ctx context.Context, args ...string) (any, error)
}

// A Call is one run of a script. The store reuses Keys and Args after the call: a client must not
// keep the slices.
type Call struct {
	Verb   string // EVALSHA or EVAL
	Script string // its SHA-1, or its text
	Keys   []string
	Args   []string

	// Renewal says that claims depend on this call. It must not wait for a connection until other
	// calls end.
	Renewal bool

	// Merge is not 0 if a client may send several calls with the same Merge as one, not on a
	// cluster: with all keys, then all arguments. They are calls of one script, with one key and
	// as many arguments each. The answer has the answers of the calls, a line each. After "-", or
	// after an error that the server answered, the client sends the call by itself. A call may undo
	// one of the same owner, its first argument, with a smaller Merge. It must not overtake that
	// one, nor its repetition.
	Merge uint8
}

// An Answer is the answer to one [Call] of many.
type Answer struct {
	Text string
	Err  error
}

// A ReplyError is an error that the server answered, such as "READONLY You can't write against a
// read only replica.".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

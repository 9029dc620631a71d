// Package promise contains tables of the guarantees of distlock: what each store promises, under
// which faults, and which test shows it. docs/guarantees.md and the table in README.md are
// generated from these tables, so no page can promise more than is tested:
//
//	make docs
//
// The tests of this package check that the pages match the tables, and that the tables match the
// tests they name. Every yes and every no has a test that runs on that store. For every store,
// every fault has a row or a reason why it cannot happen.
package promise

import "strings"

// A Store is one column of the tables.
type Store int

// The stores, in the order of the columns. To add a store, add it here, in [Names], to the Cells of
// each [Promise], and as a [Section].
const (
	Memory Store = iota
	SQLite
	Redis
	Replicated
	Redlock
	Postgres
	MariaDB
	Advisory
	Etcd
	Remote
)

// Names are the heads of the columns, in order.
var Names = []string{
	"memory", "SQLite", "Redis", "Redis with replicas", "Redlock", "PostgreSQL", "MariaDB", "advisory locks",
	"etcd", "lock server",
}

func (s Store) String() string { return Names[s] }

// An Answer is the yes or no in a cell of the overview table.
type Answer int

// The answers. No means that the promise is not made; a test shows how it breaks.
const (
	NotApplicable Answer = iota
	Yes
	No
)

func (a Answer) String() string { return [...]string{"-", "yes", "**no**"}[a] }

// A Test names a test and its file: "store/mem/mem_test.go:TestStore". If a test has a subtest for
// each store, the name includes the subtest, written as go test prints it:
// "tests/guarantees/order_test.go:TestOrder/redis,_data_kept". Text after a blank is a note for the
// reader.
type Test string

// File returns the path of the test's file in the module.
func (t Test) File() string { file, _, _ := strings.Cut(string(t), ":"); return file }

// Name returns the name of the test, as go test -run accepts it.
func (t Test) Name() string {
	_, rest, _ := strings.Cut(string(t), ":")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// Note returns the note for the reader, or "".
func (t Test) Note() string { _, note, _ := strings.Cut(string(t), " "); return note }

// A Pledge is a promise of the library that holds on every store.
type Pledge struct {
	What  string
	Tests []Test
}

// A Promise is a row of the table of promises: one question, and the answers of each store.
type Promise struct {
	Name  string // in the table
	Text  string // under its heading
	Cells map[Store][]Claim
}

// A Claim is one answer of a store. A cell has several claims if the answer depends on a
// condition.
type Claim struct {
	Answer Answer
	When   string // the condition, printed after the answer; for NotApplicable, the reason
	What   string // what happens, in a sentence
	Tests  []Test
}

// A Fault is a class of faults: a row of the fault matrix.
type Fault struct{ ID, Name string }

// A Section is a column of the fault matrix: the promises of one store under each fault.
type Section struct {
	Store  Store
	Title  string
	Intro  string
	Rows   []Row
	Absent []Absence
	Tail   string
}

// A Row says what holds under some faults.
type Row struct {
	Under    []string // IDs of the faults; empty if the fault is not in Faults
	Fault    string
	Holds    string
	Tests    []Test
	Measured string // the extremes of several runs; may be empty
}

// An Absence says why some faults cannot happen to a store.
type Absence struct {
	Under []string
	Why   string
}

// Faults are the rows of the fault matrix.
var Faults = []Fault{
	{"F01", "crash of the holder"},
	{"F02", "pause of the holder"},
	{"F03", "suspended host of the holder"},
	{"F04", "holder cut off from the store"},
	{"F05", "replies lost while requests arrive"},
	{"F06", "requests lost while messages arrive"},
	{"F07", "waiter cut off from the store"},
	{"F08", "crash of the store"},
	{"F09", "restart of the store without its data"},
	{"F10", "failover that loses the last writes"},
	{"F11", "two primaries at once"},
	{"F12", "minority of nodes lost or slow"},
	{"F13", "majority of nodes lost"},
	{"F14", "node that forgets its claims"},
	{"F15", "the store's clock is set forward"},
	{"F16", "the store's clock is set back"},
	{"F17", "a client's clock is wrong"},
	{"F18", "slow store"},
	{"F19", "reply cut off"},
	{"F20", "released twice"},
	{"F21", "renewed or released by another"},
	{"F22", "late call of a holder whose claim has ended"},
	{"F23", "waiter dies in the queue"},
	{"F24", "many waiters for one name"},
	{"F25", "out of memory or eviction"},
	{"F26", "disk full"},
	{"F27", "read-only server"},
	{"F28", "standby promoted"},
	{"F29", "pooler in between"},
	{"F30", "all notifications lost"},
	{"F31", "watch compacted"},
	{"F34", "no connection left"},
	{"F35", "claims deleted by hand"},
	{"F36", "data of others"},
	{"F37", "election of a leader among members"},
	{"F38", "certificate or password replaced"},
}

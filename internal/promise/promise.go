// Package promise is what distlock promises on each store, under which faults, and which test shows it: as tables, so
// that no page can say more than what is tested. docs/guarantees.md and the table of README.md are written from it:
//
//	make docs
//
// A test of this package holds the pages to the tables, and the tables to the tests they name: every yes and every no
// has a test, and one that runs on that store; every fault has a row, or a reason why it cannot happen, for every store.
package promise

import "strings"

// A Store is one column of the tables.
type Store int

// The stores, in the order of the columns. A new one is added here, in Names, to each Promise, and as a Section.
const (
	Memory Store = iota
	SQLite
	Redis
	Replicated
	Redlock
	Postgres
	Advisory
)

// Names are the heads of the columns, in order.
var Names = []string{"memory", "SQLite", "Redis", "Redis with replicas", "Redlock", "PostgreSQL", "advisory locks"}

func (s Store) String() string { return Names[s] }

// An Answer is what a table says at a glance.
type Answer int

// The answers. No is a promise that is not made, and has a test that shows why not.
const (
	NotApplicable Answer = iota
	Yes
	No
)

func (a Answer) String() string { return [...]string{"-", "yes", "**no**"}[a] }

// A Test names a test and the file it is in, as "store/mem/mem_test.go:TestStore". Where a test has a part for each store, it names
// the part, as go test does: "tests/promise/order_test.go:TestOrder/redis,_data_kept". Words after a blank are for the reader:
// what to look for in it.
type Test string

// File is the path of its file in the module.
func (t Test) File() string { file, _, _ := strings.Cut(string(t), ":"); return file }

// Name is the name of the test, as go test -run takes it.
func (t Test) Name() string {
	_, rest, _ := strings.Cut(string(t), ":")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// Note is what the reader is told about it.
func (t Test) Note() string { _, note, _ := strings.Cut(string(t), " "); return note }

// A Pledge is what the library promises on every store.
type Pledge struct {
	What  string
	Tests []Test
}

// A Promise is a row of the table of promises: one question, and the answer of each store.
type Promise struct {
	Name  string // in the table
	Text  string // under its heading
	Cells map[Store][]Claim
}

// A Claim is one answer of a store. A cell has several if it depends.
type Claim struct {
	Answer Answer
	When   string // the condition, in a few words that follow the answer; of NotApplicable: the reason
	What   string // what happens, in a sentence
	Tests  []Test
}

// A Fault is a class of faults: a row of the fault matrix.
type Fault struct{ ID, Name string }

// A Section is a column of the fault matrix: what a store promises under each fault.
type Section struct {
	Store  Store
	Title  string
	Intro  string
	Rows   []Row
	Absent []Absence
	Tail   string
}

// A Row is what holds under some faults.
type Row struct {
	Under    []string // the IDs of the faults; none: something that is not in the list of faults
	Fault    string
	Holds    string
	Tests    []Test
	Measured string // the extremes of several runs, if there are any
}

// An Absence says why faults do not happen to a store.
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
	{"F23", "waiter dies in line"},
	{"F24", "a crowd waits for one key"},
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

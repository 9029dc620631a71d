package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// Every function refuses arguments that break a rule of the contract, and names the argument.
func TestSQL_arguments(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	r := exclusive("held")
	r.Owner = "o"
	grant(t, s, r)
	_, eval := plainSQL(t, srv.URL, opt)
	value := func(n int) string { return fmt.Sprintf("convert_to(repeat('v', %d), 'UTF8')", n) }
	want := func(call, name string) {
		t.Helper()
		var pg *pgconn.PgError
		if _, err := eval("select count(*) = 0 from Schema." + call); !errors.As(err, &pg) ||
			pg.Code != "22023" || !strings.HasPrefix(pg.Message, "distlock: "+name+" must ") {
			t.Errorf("%s: %v, want 22023 that names %s", call, err, name)
		}
	}

	// The arguments of a claim: on a free key and on a held one, alone and in an array.
	claim := []string{"key", "owner", "ttl", "weight", `"limit"`, "queue_ttl", "floor", "holder", "task", "meta", "value", "channel", "wait"}
	for i, bad := range [][]string{
		{"null", "''", "repeat('k', 513)", `'\x' || repeat('61', 513)`},
		{"null", "''", "repeat('o', 1025)"},
		{"null::interval", "'0'", "'-1 s'", "'106752 days'"},
		{"null::bigint", "0", "-1073741824", "11", "9223372036854775807"},
		{"null::bigint", "0", "1073741825"},
		{"'-1 s'::interval", "'106752 days'"},
		{"null::bigint", "-1", "9007199254740864"},
		{"null"}, {"null"},
		{"null::jsonb", "'[1]'", "'null'", `'"text"'`, "'1'"},
		{value(driver.MaxValue + 1)},
		{"null", "repeat('c', 64)"},
		{"null::boolean"},
	} {
		for _, arg := range bad {
			name := strings.Trim(claim[i], `"`)
			for _, key := range []string{"'held'", "'free'"} {
				args := []string{key, "'o2'", "'1 min'", "1", "10", "null", "0", "''", "''",
					"'{}'", "null", "''", "true"}
				args[i] = arg
				want("acquire("+strings.Join(args, ", ")+")", name)
				switch name {
				case "queue_ttl", "floor", "channel", "wait", "holder", "task", "value":
					continue // harmless on a free key; the tables refuse values that do not fit
				}
				want("attempt("+strings.Join(args, ", ")+")", name)
				all := make([]string, len(args))
				for i := range args {
					all[i] = "array[" + args[i] + "]::" + []string{"text", "text", "interval", "bigint", "bigint",
						"interval", "bigint", "text", "text", "jsonb", "bytea", "text", "boolean"}[i] + "[]"
				}
				want("attempt_all("+strings.Join(all, ", ")+")", name)
			}
		}
	}

	for call, name := range map[string]string{
		"renew('held', 'o', '0')": "ttl", "renew('held', 'o', '-1 s')": "ttl", "renew('held', 'o', null)": "ttl", "renew('held', 'o', '106752 days')": "ttl",
		"renew('held', 'o', '1 min', null, null)":                       "keep",
		"renew('held', 'o', '1 min', " + value(driver.MaxValue+1) + ")": "value",
		"break('held', null)":                                           "reason", "break('held', 'why', null)": "up_to", "break('held', 'why', -1)": "up_to", "watch(null, '1 min')": "key", "watch('', '1 min')": "key", "watch('held', '0')": "ttl", "watch('held', null)": "ttl",
		"sweep(0)": "step", "sweep(null)": "step", "sweep(1001)": "step",
		"acquire_lock('', 'h', 1)": "name", "acquire_lock(null, 'h', 1)": "name", "acquire_lock(repeat('n', 256), 'h', 1)": "name",
		"acquire_lock('n', '', 1)": "holder", "acquire_lock('n', null, 1)": "holder", "acquire_lock('n', repeat('h', 100000), 1)": "holder",
		"acquire_lock('n', 'h', 0)": "ttl_seconds", "acquire_lock('n', 'h', -1)": "ttl_seconds", "acquire_lock('n', 'h', null)": "ttl_seconds",
		"acquire_lock('n', 'h', 9999999999)": "ttl_seconds", "acquire_lock('n', 'h', 'Infinity')": "ttl_seconds", "acquire_lock('n', 'h', 'NaN')": "ttl_seconds",
		"acquire_lock('n', 'h', 1, '[]')": "metadata", "acquire_lock('n', 'h', 1, null)": "metadata",
		"acquire_lock('n', 'h', 1, jsonb_build_object('k', repeat('v', 4096)))": "metadata",
		"release_lock('', '')": "name", "release_lock(null, 'h')": "name", "release_lock('n', '')": "holder", "release_lock('n', null)": "holder",
	} {
		want(call, name)
	}
	// renew_all leaves the error about an invalid argument to renew.
	if ok, err := eval("select string_agg(answer, '') = '+ww' from Schema.renew_all('{held,held,held}', '{o,o,o}', '{1 min,-1 s,null}')"); err != nil || !ok {
		t.Error("renew_all:", ok, err)
	}
	if cs, err := s.Show(t.Context(), "held"); err != nil || len(cs) != 1 ||
		cs[0].Left < 30*time.Second {
		t.Errorf("what was refused has changed the claim: %+v, %v", cs, err)
	}
	for c, err := range s.List(t.Context(), "") {
		if err != nil || c.Key != "held" {
			t.Errorf("what was refused has left %+v, %v", c, err)
		}
	}

	// The largest valid values.
	for _, call := range []string{
		`acquire(repeat('k', 512), repeat('o', 1024), '106751 days', 10, 10, '0', 0, '', '', '{"k": [1]}', ` + value(driver.MaxValue) + `, repeat('c', 63))`,
		`acquire('\x' || repeat('61', 512), 'o', '1 microsecond', 1073741824, 1073741824)`,
	} {
		if ok, err := eval("select answer = '+' from Schema." + call); err != nil || !ok {
			t.Errorf("%s: %v, %v", call, ok, err)
		}
	}
	for _, call := range []string{
		"acquire_lock(repeat('n', 255), repeat('h', 255), 9223372036)", "release_lock(repeat('n', 255), repeat('h', 255))", "acquire_lock('tiny', 'h', 1e-9)",
	} {
		if ok, err := eval("select Schema." + call); err != nil || !ok {
			t.Errorf("%s: %v, %v", call, ok, err)
		}
	}
}

// Rows that were written by hand hide no other rows, and are shown as far as possible.
func TestStore_strangeRows(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	eval := func(sql string) [][]string { return query(t, srv, strings.ReplaceAll(sql, "Schema", quoted(opt))) }
	good := exclusive("zz good")
	grant(t, s, good)
	for key, set := range map[string]string{
		"meta": "meta = '[1]'", "null": "meta = 'null'", "ever": "ends = 'infinity', since = '-infinity'",
		"far":   "ends = '99999-01-01', since = '99999-01-01'",
		"fence": "fence = -1", "weight": "weight = 9223372036854775807", "hex": `owner = '\xzz', holder = '\xz', task = '\x6'`,
	} {
		grant(t, s, exclusive(key))
		eval("update Schema.claim set " + set + " where key = '" + key + "'")
	}
	listed := map[string]driver.Claim{}
	for c, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatalf("List: %v after %d claims", err, len(listed))
		}
		listed[c.Key] = c
	}
	if len(listed) != 8 {
		t.Errorf("List returned %d claims, want 8: %v", len(listed), listed)
	}
	const century = 100 * 365 * 24 * time.Hour
	for _, c := range []driver.Claim{listed["meta"], refuse(t, s, exclusive("meta")).Blocker} {
		if c.Meta["meta"] != "[1]" {
			t.Errorf("metadata that is an array was listed as %q", c.Meta)
		}
	}
	for _, c := range []driver.Claim{listed["ever"], refuse(t, s, exclusive("ever")).Blocker} {
		if c.Left < century || c.Held < century {
			t.Errorf("a claim for ever was listed with %v left, held for %v", c.Left, c.Held)
		}
	}
	if res := refuse(t, s, exclusive("far")); listed["far"].Left < century ||
		listed["far"].Held != 0 || res.Retry < century {
		t.Errorf("a claim until the year 99999 was listed as %+v, with a retry in %v",
			listed["far"], res.Retry)
	}
	if listed["fence"].Fence != 0 {
		t.Errorf("a fence of -1 was listed as %d", listed["fence"].Fence)
	}
	if c := refuse(t, s, exclusive("hex")).Blocker; c.Holder != `\xz` || c.Task != `\x6` {
		t.Errorf("the blocker is %+v", c)
	}
	if rows := eval(`select count(*), max(holder) filter (where name = 'hex'), max(owner) filter (where name = 'hex') from Schema.locks`); rows[0][0] != "8" ||
		rows[0][1] != `\xz` || rows[0][2] != driver.Tag(`\xzz`) {
		t.Errorf("the locks are %q", rows)
	}
	renew(t, s, good)
}

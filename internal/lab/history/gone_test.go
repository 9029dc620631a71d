package history

import "testing"

// A waiter whose process is gone waits no longer: a key without other waiters may stay free.
func TestCheck_gone_waiter(t *testing.T) {
	held := grant(1, 10, 10, 128, 1000)
	waiter := op(Acquire, Pending, 2, 20, 0).waiting(30).weighing(1, 9)
	for name, tt := range map[string]struct {
		ops []Op
		bad int
	}{
		"it waits":   {[]Op{held, waiter, op(Release, Done, 1, 100, 100)}, 1},
		"it is gone": {[]Op{held, waiter, op(Gone, Done, 2, 200, 200), op(Release, Done, 1, 100, 100)}, 0},
	} {
		v := Check(script(60000*ms, tt.ops...), Rules{HandOver: 1000 * ms, Takeover: 1000 * ms, Heal: 1000 * ms, Stuck: 5000 * ms})
		if got := v.Count[I5] + v.Count[I6]; (got > 0) != (tt.bad > 0) {
			t.Errorf("%s: %v", name, v.Count)
		}
	}
}

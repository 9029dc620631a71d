package drivertest

import (
	"context"

	"github.com/distlock/distlock/driver"
)

// wakeRules state which watchers are woken to attempt again.
func wakeRules() []rule {
	return []rule{
		{
			name:     "wake",
			sentence: "a release wakes the head of the queue and no other",
			needs:    watch | queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				w1, w2 := queued(p.exclusive(), p.long), queued(p.exclusive(), p.long)
				c1, c2 := p.watch(w1.ID), p.watch(w2.ID)
				p.refuse(w1)
				p.refuse(w2)
				p.settle(c1, c2)
				p.renew(a.ID, p.long, nil, nil)
				p.asleep(c1, "the head, by a renewal,")
				p.release(a.ID, nil)
				p.woken(c1, "the head")
				p.asleep(c2, "the second in the queue")
				p.grant(w1)
				p.asleep(c2, "the second in the queue, by a grant that leaves no capacity,")
				p.release(w1.ID, nil)
				p.woken(c2, "the second in the queue, now the head,")
			},
		},
		{
			name: "pushed grant",
			sentence: "a wake-up that reports a grant is true: the claim exists, with that " +
				"fence and that many entries behind it",
			needs: watch | queue | fence,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				w := queued(p.exclusive(), p.long)
				c := p.watch(w.ID)
				p.refuse(w)
				p.refuse(queued(p.exclusive(), p.long))
				p.settle(c)
				p.release(a.ID, nil)
				wake := p.woken(c, "the head")
				if !wake.Granted {
					return
				}
				if res := p.grant(w); res.Fence != wake.Fence || res.Behind != wake.Behind {
					p.wrong("the wake-up reports fence %d and %d behind, Acquire %d and %d",
						wake.Fence, wake.Behind, res.Fence, res.Behind)
				}
			},
		},
		{
			name:     "wake by capacity",
			sentence: "a lowered weight and a withdrawn entry wake the head if it fits now",
			needs:    watch | queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				r, w, r2 := queued(p.shared(), p.long), queued(p.exclusive(), p.long), queued(p.shared(), p.long)
				c, c2 := p.watch(r.ID), p.watch(r2.ID)
				p.refuse(r)
				p.settle(c)
				a.Weight = 1
				p.grant(a)
				p.woken(c, "the reader, by a downgrade,")
				p.grant(r)
				p.refuse(w)
				p.refuse(r2)
				p.settle(c2)
				p.release(w.ID, nil)
				p.woken(c2, "the reader, by a withdrawn entry,")
				p.grant(r2)
			},
		},
		{
			name:     "wake the next",
			sentence: "a grant that leaves capacity wakes the next in the queue",
			needs:    watch | queue,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				var rs []driver.Request
				var cs []<-chan driver.Wake
				for range 3 {
					r := queued(p.shared(), p.long)
					rs, cs = append(rs, r), append(cs, p.watch(r.ID))
					p.refuse(r)
				}
				p.settle(cs...)
				p.release(a.ID, nil)
				for i, r := range rs {
					p.woken(cs[i], "the next reader")
					p.grant(r)
				}
			},
		},
		{
			name:     "wake all",
			sentence: "a claim that becomes a record wakes all waiters",
			needs:    watch | queue | keep,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				w1, w2 := queued(p.exclusive(), p.long), queued(p.exclusive(), p.long)
				c1, c2 := p.watch(w1.ID), p.watch(w2.ID)
				p.refuse(w1)
				p.refuse(w2)
				p.settle(c1, c2)
				p.renewal(driver.Renewal{ID: a.ID, TTL: p.long, Keep: true}, nil)
				p.woken(c1, "the head")
				p.woken(c2, "the second in the queue")
			},
		},
		{
			name: "observer",
			sentence: "a watch without an owner is woken when a claim on the key ends or " +
				"becomes a record",
			needs: watch,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				c := p.watch(driver.ID{Key: p.key})
				p.settle(c)
				p.release(a.ID, nil)
				p.woken(c, "the observer, by a release,")
				if p.has(breaks) {
					b := p.exclusive()
					p.grant(b)
					p.settle(c)
					p.broken(p.key, b)
					p.woken(c, "the observer, by Break,")
				}
				if p.has(keep) {
					b := p.exclusive()
					p.grant(b)
					p.settle(c)
					p.renewal(driver.Renewal{ID: b.ID, TTL: p.long, Keep: true}, nil)
					p.woken(c, "the observer, by a record,")
				}
			},
		},
		{
			name:     "wake by break",
			sentence: "Break wakes the head of the queue",
			needs:    watch | queue | breaks,
			check: func(p *probe) {
				a, w := p.exclusive(), queued(p.exclusive(), p.long)
				p.grant(a)
				c := p.watch(w.ID)
				p.refuse(w)
				p.settle(c)
				p.broken(p.key, a)
				p.woken(c, "the head")
				p.grant(w)
			},
		},
		{
			name:     "watch ends",
			sentence: "a watch ends with its ctx, and its channel is not closed",
			needs:    watch,
			check: func(p *probe) {
				a := p.exclusive()
				p.grant(a)
				ctx, cancel := context.WithCancel(p.t.Context())
				c := driver.Watch(ctx, p.store, driver.ID{Key: p.key})
				p.settle(c)
				cancel()
				p.pause()
				p.release(a.ID, nil)
				p.asleep(c, "a watcher whose ctx has ended")
			},
		},
	}
}

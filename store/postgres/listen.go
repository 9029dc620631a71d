package postgres

import (
	"context"
	"time"
)

// listenPause is how long a lane that listens waits before it connects again.
const listenPause = 500 * time.Millisecond

// Brief prepares the store for a process that makes few calls and then ends, such as a command. The
// connection for claims also listens for notifications, so a process that waits for a lock has one
// connection instead of two. A call takes a little longer. Brief is called before the first call.
func (s *Store) Brief() { s.brief = s.feed.conf == nil }

// share makes the lane listen for notifications, whenever no call waits.
func (l *lane) share() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.listens = true
	if !l.running {
		l.running = true
		l.wg.Go(func() { l.run(nil) })
	}
}

// listen waits for one notification, until a call comes. It reports false if the lane does not
// listen, or has a call to send.
func (l *lane) listen() bool {
	l.mu.Lock()
	if !l.listens || l.closed || len(l.queue) > 0 {
		l.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithTimeout(l.ctx, silence)
	defer cancel()
	l.wake = cancel
	l.mu.Unlock()
	l.receive(ctx)
	l.mu.Lock()
	l.wake = nil
	l.mu.Unlock()
	return true
}

// receive waits for one notification, until ctx ends. Then the next call finds out whether the
// connection is alive.
//
//nolint:contextcheck // a connection is made and closed also when ctx has ended
func (l *lane) receive(ctx context.Context) {
	if err := l.hear(); err != nil {
		l.drop()
		select {
		case <-ctx.Done():
		case <-time.After(listenPause):
		}
		return
	}
	if l.server.pooled { // a notification reaches nobody
		l.mu.Lock()
		l.listens = false
		l.mu.Unlock()
		l.s.feed.giveUp()
		return
	}
	l.unlimited()
	switch n, err := l.conn.WaitForNotification(ctx); {
	case err == nil:
		l.used = time.Now()
		l.s.feed.news(n.Channel, n.Payload)
	case ctx.Err() == nil:
		l.drop()
	}
}

// hear sees to it that there is a connection to which the server sends notifications.
func (l *lane) hear() error {
	if err := l.connect(nil); err != nil || l.server.pooled || l.hears {
		return err
	}
	l.unlimited()
	ctx, cancel := context.WithTimeout(l.ctx, laneLimit)
	defer cancel()
	if err := l.s.feed.subscribe(ctx, l.conn); err != nil {
		return err
	}
	l.hears = true
	return nil
}

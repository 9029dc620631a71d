package postgres

import (
	"context"
	"time"
)

// listenPause is the delay before a batcher that listens connects again.
const listenPause = 500 * time.Millisecond

// Brief prepares the store for a process that makes few calls and then ends, such as a command. The
// connection for claims also listens for notifications, so a process that waits for a lock has one
// connection instead of two. Each call takes a little longer. Call Brief before the first other
// call.
func (s *Store) Brief() { s.brief = s.listener.conf == nil }

// share makes the batcher listen for notifications whenever no call waits.
func (b *batcher) share() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.listens = true
	if !b.running {
		b.running = true
		b.wg.Go(func() { b.run(nil) })
	}
}

// listen waits for one notification, or until a call arrives. It returns false if the batcher does
// not listen, or has a call to send.
func (b *batcher) listen() bool {
	b.mu.Lock()
	if !b.listens || b.closed || len(b.queue) > 0 {
		b.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithTimeout(b.ctx, pingAfter)
	defer cancel()
	b.wake = cancel
	b.mu.Unlock()
	b.receive(ctx)
	b.mu.Lock()
	b.wake = nil
	b.mu.Unlock()
	return true
}

// receive waits for one notification or for the end of ctx. After that, the next call checks
// whether the connection is alive.
//
//nolint:contextcheck // a connection is made and closed even if ctx has ended
func (b *batcher) receive(ctx context.Context) {
	if err := b.startListening(); err != nil {
		b.drop()
		select {
		case <-ctx.Done():
		case <-time.After(listenPause):
		}
		return
	}
	if b.server.pooled { // no notification would arrive
		b.mu.Lock()
		b.listens = false
		b.mu.Unlock()
		b.s.listener.giveUp()
		return
	}
	b.clearDeadlines()
	switch n, err := b.conn.WaitForNotification(ctx); {
	case err == nil:
		b.used = time.Now()
		b.s.listener.deliver(n.Channel, n.Payload)
	case ctx.Err() == nil:
		b.drop()
	}
}

// startListening ensures that there is a connection to which the server sends notifications.
func (b *batcher) startListening() error {
	if err := b.connect(nil); err != nil || b.server.pooled || b.listening {
		return err
	}
	b.clearDeadlines()
	ctx, cancel := context.WithTimeout(b.ctx, batchLimit)
	defer cancel()
	if err := b.s.listener.subscribe(ctx, b.conn); err != nil {
		return err
	}
	b.listening = true
	return nil
}

//go:build !linux

package keeper

import "time"

// asleep returns 0: the time asleep is not known on this system. After a suspend, the store's
// answer to the first renewal shows the loss, and the fencing token rejects late writes.
func asleep() time.Duration { return 0 }

//go:build !linux

package torture

import "time"

// canProcess says that the clocks of two processes may differ on this system.
const canProcess = false

func monotonic() time.Duration { return 0 }

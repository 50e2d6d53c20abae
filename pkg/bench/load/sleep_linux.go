package load

import (
	"syscall"
	"time"
)

// sleep is late by less than a tenth of a millisecond. A signal may end it
// early, so the caller looks at the clock.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil)
}

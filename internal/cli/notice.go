package cli

import (
	"fmt"
	"sync"
	"time"
)

// noticeAfter is the interval after which a command that waits reports what it waits for.
const noticeAfter = 2 * time.Second

// notice reports what the command is doing if it takes longer than [noticeAfter], and again
// when that changes. busy is called from another goroutine and returns "" if there is
// nothing to report; say prints a line. Nothing is printed after end returns. end may be
// called more than once.
func notice(say func(format string, args ...any), busy func() string) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(noticeAfter)
		defer tick.Stop()
		last := ""
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if text := busy(); text != "" && text != last {
				say("tarn: still %s", text)
				last = text
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}

// busy is notice with a fixed text on standard error.
func (e *env) busy(format string, args ...any) (end func()) {
	text := fmt.Sprintf(format, args...)
	return notice(e.say, func() string { return text })
}

// say prints a line on standard error.
func (e *env) say(format string, args ...any) {
	fmt.Fprintln(e.err, plain(fmt.Sprintf(format, args...)))
}

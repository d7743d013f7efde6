package main

import (
	"fmt"
	"sync"
	"time"
)

// noticeAfter is how long the command may be silent.
const noticeAfter = 2 * time.Second

// notice says what the command is busy with if that takes longer than [noticeAfter], and says it
// again when it becomes something else. busy is called by another goroutine and returns an empty
// text if there is nothing to say; say writes a line. Nothing is said after end has returned; it may
// be called more than once.
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

// busy says on standard error what the command is busy with, see [notice].
func (e *env) busy(format string, args ...any) (end func()) {
	text := fmt.Sprintf(format, args...)
	return notice(e.say, func() string { return text })
}

// say writes a line to standard error.
func (e *env) say(format string, args ...any) {
	fmt.Fprintln(e.err, plain(fmt.Sprintf(format, args...)))
}

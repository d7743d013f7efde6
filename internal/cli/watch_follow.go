package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

const (
	// settle is the delay after a failure before the reflector's next state is reported.
	settle = 50 * time.Millisecond
	// redraw is the interval for updating the status line.
	redraw = 250 * time.Millisecond
)

// follow reports on standard error when a resource's mirror becomes live, fails and
// recovers, one line each. With --once it reports only failures.
func (v *view) follow(ctx context.Context, s *viewed) {
	select {
	case <-s.mirror.Synced():
		if v.flags.once {
			return
		}
		v.screen.say("%s: watching, %s", s.res, counted(s.mirror.Len(), "object"))
	case failure := <-s.failures:
		v.reportFailures(ctx, s, failure)
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		select {
		case failure := <-s.failures:
			v.reportFailures(ctx, s, failure)
		case <-ctx.Done():
		}
	}
}

// reportFailures reports failures until the mirror is live again.
func (v *view) reportFailures(ctx context.Context, s *viewed, failure *reflector.Error) {
	since := time.Now()
	tick := time.NewTicker(settle)
	defer tick.Stop()
	pending := []*reflector.Error{failure}
	reported := false
	for {
		select {
		case failure := <-s.failures:
			pending = append(pending, failure)
			continue
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		status := s.mirror.Status()
		for _, failure := range pending {
			if text := failureText(failure, status); text != "" {
				v.screen.say("%s: %s", s.res, text)
				reported = true
			}
		}
		pending = nil
		if status.Live() {
			if reported && !v.flags.once {
				v.screen.say("%s: live again after %v, %s", s.res, time.Since(since).Round(100*time.Millisecond), counted(status.Store.Objects, "object"))
			}
			return
		}
	}
}

// failureText describes a failure and what happens next. It is empty for failures that are
// part of normal operation.
func failureText(failure *reflector.Error, status informer.Status) string {
	switch failure.Reason {
	case reflector.Closed:
		return ""
	case reflector.Expired:
		return "the resource version expired (410); relisting"
	case reflector.Rewind:
		return "resource versions went backwards, as after a restore; relisting"
	case reflector.Rejected, reflector.NoBookmark:
		if failure.Op == "streaming list" {
			return "" // falls back to a list, as with older servers
		}
	}
	text := failure.Op + " failed"
	if failure.Op == "watch" {
		text = "disconnected"
	}
	text += ": " + errorText(failure.Err)
	for _, src := range status.Sources {
		if src.Reflector.State == reflector.BackingOff {
			text += fmt.Sprintf("; retrying in %v", max(time.Until(src.Reflector.Until), 0).Round(100*time.Millisecond))
		}
	}
	return text
}

// updateStatus keeps the status line up to date.
func (v *view) updateStatus(ctx context.Context) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		var parts []string
		for _, s := range v.resources {
			parts = append(parts, statusText(s))
		}
		if v.progress != nil {
			v.mu.Lock()
			parts = append(parts, v.progress())
			v.mu.Unlock()
		}
		v.screen.status(strings.Join(parts, " · ") + " · Ctrl-C to stop")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// statusText describes the state of a resource's mirror.
func statusText(s *viewed) string {
	status := s.mirror.Status()
	state := "connecting"
	switch {
	case status.Live():
		state = "live"
	case len(status.Sources) > 0 && status.Sources[0].Reflector.State == reflector.BackingOff:
		wait := max(time.Until(status.Sources[0].Reflector.Until), 0)
		state = fmt.Sprintf("retrying in %ds", int(wait.Seconds()+0.999))
	case status.Synced:
		state = "reconnecting"
	}
	return fmt.Sprintf("%s %s, %s", s.res, state, counted(status.Store.Objects, "object"))
}

// serverText returns the server's message.
func serverText(err error) string {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return oneLine(refusal.Status().Message)
	}
	return errorText(err)
}

package main

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
	// settle is how long after a failure its consequences are looked at: by then the
	// reflector has decided what follows.
	settle = 50 * time.Millisecond
	// redraw is how often the line below the output is brought up to date.
	redraw = 250 * time.Millisecond
)

// follow says on standard error when a resource's mirror is live, what fails, and when
// it is live again: one line each. With --once it only says what fails.
func (v *view) follow(ctx context.Context, s *sight) {
	select {
	case <-s.mirror.Synced():
		if v.flags.once {
			return
		}
		v.screen.say("%s: watching, %s", s.res, counted(s.mirror.Len(), "object"))
	case failure := <-s.trouble:
		v.trouble(ctx, s, failure)
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		select {
		case failure := <-s.trouble:
			v.trouble(ctx, s, failure)
		case <-ctx.Done():
		}
	}
}

// trouble tells of failures until the mirror is live again.
func (v *view) trouble(ctx context.Context, s *sight, failure *reflector.Error) {
	since := time.Now()
	tick := time.NewTicker(settle)
	defer tick.Stop()
	pending := []*reflector.Error{failure}
	told := false
	for {
		select {
		case failure := <-s.trouble:
			pending = append(pending, failure)
			continue
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		status := s.mirror.Status()
		for _, failure := range pending {
			if text := consequence(failure, status); text != "" {
				v.screen.say("%s: %s", s.res, text)
				told = true
			}
		}
		pending = nil
		if status.Live() {
			if told && !v.flags.once {
				v.screen.say("%s: live again after %v, %s", s.res, time.Since(since).Round(100*time.Millisecond), counted(status.Store.Objects, "object"))
			}
			return
		}
	}
}

// consequence says what failed and what follows from it; nothing if that is in order.
func consequence(failure *reflector.Error, status informer.Status) string {
	switch failure.Reason {
	case reflector.Closed:
		return ""
	case reflector.Expired:
		return "the server has forgotten what came next (410); listing again"
	case reflector.Rewind:
		return "the server's history began anew, as after a restore; listing again"
	case reflector.Rejected, reflector.NoBookmark:
		if failure.Op == "streaming list" {
			return "" // a list follows; older servers have no other
		}
	}
	text := failure.Op + " failed"
	if failure.Op == "watch" {
		text = "disconnected"
	}
	text += ": " + sentence(failure.Err)
	for _, src := range status.Sources {
		if src.Reflector.State == reflector.BackingOff {
			text += fmt.Sprintf("; trying again in %v", max(time.Until(src.Reflector.Until), 0).Round(100*time.Millisecond))
		}
	}
	return text
}

// stand keeps the line below the output up to date.
func (v *view) stand(ctx context.Context) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		var parts []string
		for _, s := range v.sights {
			parts = append(parts, standing(s))
		}
		v.screen.status(strings.Join(parts, " · ") + " · Ctrl-C ends")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// standing says how a resource's mirror does.
func standing(s *sight) string {
	status := s.mirror.Status()
	state := "connecting"
	switch {
	case status.Live():
		state = "live"
	case len(status.Sources) > 0 && status.Sources[0].Reflector.State == reflector.BackingOff:
		wait := max(time.Until(status.Sources[0].Reflector.Until), 0)
		state = fmt.Sprintf("trying again in %ds", int(wait.Seconds()+0.999))
	case status.Synced:
		state = "reconnecting"
	}
	return fmt.Sprintf("%s %s, %s", s.res, state, counted(status.Store.Objects, "object"))
}

// serverText returns what the server said.
func serverText(err error) string {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return oneLine(refusal.Status().Message)
	}
	return sentence(err)
}

package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// demoFrame is everything the demo shows at one moment.
type demoFrame struct {
	at       time.Duration // since the start
	mirrors  []demoRow
	writes   int64
	summary  controller.Status
	faults   int
	kinds    map[apiserver.FaultKind]int
	news     []demoChange
	nodes    int // distinct values of the node index
	fullest  string
	most     int
	owners   int
	frontend int
}

// demoRow is one mirror in a frame.
type demoRow struct {
	name    string
	events  int64
	lag     int
	lagTime time.Duration
	tarn.MirrorStatus
}

// frame collects the data to show.
func (d *demo) frame() demoFrame {
	f := demoFrame{at: time.Since(d.started), writes: d.churn.writes.Load(), summary: d.summary.Status(), news: d.mirrors.news.newest()}
	for _, m := range d.mirrors.all {
		sub := m.sub.Status()
		f.mirrors = append(f.mirrors, demoRow{name: m.name, events: m.events.Load(), lag: sub.Lag, lagTime: sub.LagTime, MirrorStatus: m.status()})
	}
	f.faults, f.kinds = injectedFaults(d.server)
	snap := d.mirrors.pods.Snapshot()
	defer snap.Release()
	for node := range d.mirrors.byNode.Keys(snap) {
		if node == "" {
			continue // pods that are not scheduled yet
		}
		f.nodes++
		if n := d.mirrors.byNode.Count(snap, node); n > f.most || n == f.most && node < f.fullest {
			f.fullest, f.most = node, n
		}
	}
	for range d.mirrors.byOwner.Keys(snap) {
		f.owners++
	}
	for range d.mirrors.byLabel.Select(snap, labels.SelectorFromSet(labels.Set{"tier": "frontend", "app": "web"})) {
		f.frontend++
	}
	return f
}

// totals sums over all mirrors.
func (f demoFrame) totals() (objects int, events int64, lag int) {
	for _, r := range f.mirrors {
		objects += r.Objects
		events += r.events
		lag += r.lag
	}
	return objects, events, lag
}

// demoView shows frames, on a terminal in place and otherwise as one line per second.
type demoView struct {
	out   *printer
	live  bool
	size  func() (width, height int)
	paint paint
	// program is the command to run this program.
	program string

	drawn int // lines of the last frame on the terminal
	last  demoFrame
}

func newDemoView(e *env) *demoView {
	v := &demoView{out: e.out, paint: paint(e.colour()), program: e.program}
	if fd, ok := e.terminal(); ok && os.Getenv("TERM") != "dumb" {
		v.live = true
		v.size = func() (int, int) {
			if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
				return w, h
			}
			return 80, 24
		}
	}
	return v
}

func (v *demoView) period() time.Duration {
	if v.live {
		return 250 * time.Millisecond
	}
	return time.Second
}

// say prints a line that stays.
func (v *demoView) say(format string, args ...any) {
	v.erase()
	fmt.Fprintln(v.out, plain(fmt.Sprintf(format, args...)))
}

// draw shows a frame.
func (v *demoView) draw(f demoFrame) {
	span := (f.at - v.last.at).Seconds()
	if v.last.mirrors == nil {
		span = 0
	}
	if !v.live {
		fmt.Fprintln(v.out, v.line(f, span))
		v.last = f
		return
	}
	width, height := v.size()
	lines := v.block(f, span, width-1)
	if len(lines) > height-1 {
		lines = lines[:max(height-1, 1)]
	}
	p := v.home()
	for _, line := range lines {
		p.in(line.style, line.text)
		p.control(clearRight)
		p.put("\n")
	}
	p.control(clearBelow)
	_ = v.out.show(p) // the printer keeps the error
	v.drawn = len(lines)
	// Compute rates over at least a second; they are unstable over a shorter time.
	if v.last.mirrors == nil || f.at-v.last.at >= time.Second {
		v.last = f
	}
}

// home returns a page that moves the cursor to the start of the last frame.
func (v *demoView) home() *page {
	p := &page{paint: v.paint}
	if v.drawn > 0 {
		p.control(up(v.drawn))
	}
	return p
}

// erase removes the last frame.
func (v *demoView) erase() {
	if v.drawn == 0 {
		return
	}
	p := v.home()
	p.control(clearBelow)
	_ = v.out.show(p) // the printer keeps the error
	v.drawn = 0
}

func perSecond(now, before int64, span float64) float64 {
	if span <= 0 {
		return 0
	}
	return float64(now-before) / span
}

// line returns a frame as one line of plain text.
func (v *demoView) line(f demoFrame, span float64) string {
	objects, events, lag := f.totals()
	_, before, _ := v.last.totals()
	text := fmt.Sprintf("%6s  %s  %.0f events/s  lag %s  queue %d  %s, %d failed  %s  %s",
		fmt.Sprintf("%.1fs", f.at.Seconds()), counted(objects, "object"), perSecond(events, before, span), counted(lag, "event"),
		f.summary.Queue.Waiting+f.summary.Queue.Dirty, counted(int(f.summary.Reconciles), "reconcile"), f.summary.Failed, counted(f.faults, "fault"), f.states())
	if len(f.news) > 0 {
		text += "  " + sign(f.news[0].kind) + " " + f.news[0].text
	}
	return plain(text)
}

// states lists the mirrors that are not live.
func (f demoFrame) states() string {
	var not []string
	for _, r := range f.mirrors {
		if r.State != tarn.Live {
			not = append(not, r.name+" "+r.State.String())
		}
	}
	if len(not) == 0 {
		return "all live"
	}
	return strings.Join(not, ", ")
}

func sign(k object.Kind) string {
	switch k {
	case object.Added:
		return "+"
	case object.Deleted:
		return "-"
	}
	return "~"
}

type demoLine struct {
	style style
	text  string
}

// block returns a frame as lines for a terminal of the given width.
func (v *demoView) block(f demoFrame, span float64, width int) (lines []demoLine) {
	add := func(s style, format string, args ...any) {
		lines = append(lines, demoLine{s, cut(plain(fmt.Sprintf(format, args...)), width)})
	}
	objects, events, lag := f.totals()
	_, before, _ := v.last.totals()
	add(bold, "tarn demo  %.0f s  %s, %s mirrored", f.at.Seconds(), counted(int(f.writes), "write"), counted(int(events), "event"))
	add(regular, "")
	const row = "%-12s %9s %9s %6s  %s"
	const rowWidth = 12 + 1 + 9 + 1 + 9 + 1 + 6 + 2 // before the state
	add(faint, row, "RESOURCE", "OBJECTS", "EVENTS/S", "LAG", "STATE")
	for i, r := range f.mirrors {
		var was int64
		if i < len(v.last.mirrors) {
			was = v.last.mirrors[i].events
		}
		state, s := r.State.String(), regular
		if r.State != tarn.Live {
			s = yellow
			if r.Cause != nil {
				state += ": "
				state += cutLeft(plain(r.Cause.Error()), width-rowWidth-len(state))
			}
		}
		lagging := strconv.Itoa(r.lag)
		if r.lagTime >= time.Millisecond {
			lagging = brief(r.lagTime)
		}
		add(s, row, r.name, thousands(r.Objects), fmt.Sprintf("%.1f", perSecond(r.events, was, span)), lagging, state)
	}
	add(bold, row, "all", thousands(objects), fmt.Sprintf("%.1f", perSecond(events, before, span)), strconv.Itoa(lag), "")
	add(regular, "")
	s := f.summary
	if f.fullest != "" {
		add(regular, "indexes     pods on %s, most on %s: %d; of %s; app=web,tier=frontend: %d", counted(f.nodes, "node"), f.fullest, f.most, counted(f.owners, "owner"), f.frontend)
	} else {
		add(regular, "indexes     empty")
	}
	add(regular, "controller  %s: queue %d, running %d; %s (%.1f/s), %d failed, %s, p50 %s", s.State, s.Queue.Waiting+s.Queue.Dirty, len(s.Running),
		counted(int(s.Reconciles), "reconcile"), perSecond(int64(s.Reconciles), int64(v.last.summary.Reconciles), span), s.Failed, counted(int(s.Conflicts), "conflict"), brief(s.Latency.Median))
	add(regular, "faults      %s", faultText(f.faults, f.kinds, "none"))
	add(regular, "")
	add(faint, "LAST CHANGES")
	for _, change := range f.news {
		add(map[string]style{"+": green, "-": red, "~": cyan}[sign(change.kind)], "%s %s", sign(change.kind), change.text)
	}
	for range demoNewsKept - len(f.news) {
		add(regular, "")
	}
	add(faint, "Press q to quit.")
	return lines
}

func faultText(total int, kinds map[apiserver.FaultKind]int, none string) string {
	if total == 0 {
		return none
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return fmt.Sprintf("%d injected: %s", total, strings.Join(parts, ", "))
}

// conclude prints the summary.
func (v *demoView) conclude(d *demo) {
	v.erase()
	s := d.summary.Status()
	_, events, _ := d.frame().totals()
	total, kinds := injectedFaults(d.server)
	fmt.Fprintf(v.out, "\nRan for %s: %s, %s mirrored, %s, %d failed and retried.\n", brief(d.ran),
		counted(int(d.churn.writes.Load()), "write"), counted(int(events), "event"), counted(int(s.Reconciles), "reconcile"), s.Failed)
	fmt.Fprintf(v.out, "Faults: %s.\n", faultText(total, kinds, "none"))
}

// printComparison prints the result of the comparison.
func (v *demoView) printComparison(found comparison) {
	p := &page{paint: v.paint}
	if found.err != nil {
		p.in(red, plain("The mirror could not be verified: "+errorText(found.err)+"."))
	} else {
		p.in(green, fmt.Sprintf("The mirror equals the server: %s of %d resources, compared field by field.", counted(found.objects, "object"), found.resources))
	}
	p.put("\n")
	_ = v.out.show(p) // the printer keeps the error
}

// suggest prints commands to try next, ready to paste into a shell.
func (v *demoView) suggest(d *demo) {
	kubeconfig := shellWord(filepath.Join(os.TempDir(), "tarn-demo.kubeconfig"))
	fmt.Fprint(v.out, "\nTry next:\n")
	try := func(what, args string) {
		fmt.Fprintf(v.out, "\n  # %s\n  %s %s\n", what, v.program, args)
	}
	if !d.faults.any() {
		try("the same with faults", "demo --faults")
	}
	try("a larger cluster", "demo --objects 50000 --churn 2000")
	try("an API server with a changing cluster", "apiserver --objects 500 --churn 5 --kubeconfig-out "+kubeconfig)
	try("its changes field by field, in another terminal", "watch pods -A -o diff --kubeconfig "+kubeconfig)
	try("how well your own cluster can be watched", "doctor pods")
	if v.program == goRun {
		fmt.Fprint(v.out, "\nAfter go install ./cmd/tarn, use just tarn.\n")
	}
}

// thousands formats a number with thousands separators.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

package chaos

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tarnproject/tarn/reflector"
)

// figures are what happened to one form.
type figures struct {
	form                string
	objects             int
	received, stale     int64 // events
	relists, reconnects int64
	rewinds             int64 // that were noticed, by all sources
	streamed            int64 // lists, the first included
	delivered           int   // changes, to all subscribers
	caughtUp            uint64
	ended               map[reflector.Reason]int64
	failed              int64 // requests, whose reasons are not counted
}

// recoveries are how long it took after faults of one kind until everything was current.
type recoveries struct {
	faults int
	lasted []time.Duration // the faults themselves
	took   []time.Duration
}

func (r *recoveries) row() string {
	lasted, _ := spread(r.lasted)
	median, most := spread(r.took)
	return fmt.Sprintf("%d\t%s\t%d\t%s\t%s", r.faults, lasted, len(r.took), median, most)
}

// spread returns the median and the longest of some times.
func spread(all []time.Duration) (median, most string) {
	if len(all) == 0 {
		return "–", "–"
	}
	all = slices.Sorted(slices.Values(all))
	return round(all[len(all)/2]).String(), round(all[len(all)-1]).String()
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// table prints what happened. Recovery is measured where a fault struck alone, and where
// several did at once.
func table(kinds map[string]*recoveries, several *recoveries, forms []figures) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tstruck\tlasted p50\tmeasured\trecovery p50\tmax")
	all := &recoveries{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(w, "%s\t%s\n", name, kinds[name].row())
		all.faults += kinds[name].faults
		all.lasted = append(all.lasted, kinds[name].lasted...)
		all.took = append(all.took, kinds[name].took...)
	}
	all.took = append(all.took, several.took...)
	fmt.Fprintf(w, "several of these at once\t%s\n", several.row())
	fmt.Fprintf(w, "all\t%s\n", all.row())
	fmt.Fprintln(w)
	fmt.Fprintln(w, "form\tobjects\treceived\tno news\trelists\trewinds\tstreamed lists\treconnects\ttold\tcaught up\twhy requests ended")
	for _, f := range forms {
		if f.ended == nil {
			fmt.Fprintf(w, "%s\t%d\t–\t–\t–\t–\t–\t–\t%d\t–\tfailed %d\n", f.form, f.objects, f.delivered, f.failed)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", f.form, f.objects, f.received, f.stale,
			f.relists, f.rewinds, f.streamed, f.reconnects, f.delivered, f.caughtUp, reasons(f.ended))
	}
	_ = w.Flush()
	return b.String()
}

// reasons are those that came about, the most frequent first.
func reasons(ended map[reflector.Reason]int64) string {
	names := slices.SortedFunc(maps.Keys(ended), func(a, b reflector.Reason) int {
		if ended[a] != ended[b] {
			return int(ended[b] - ended[a])
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %d", n, ended[n]))
	}
	return strings.Join(parts, ", ")
}

func (r *run) progress(struck int) {
	r.t.Logf("%s: %d faults, %d writes, %d quiet points, %d moments compared, %d goroutines",
		time.Since(r.began).Round(time.Second), struck, r.writers.writes.Load(), r.quietTimes, r.moments, runtime.NumGoroutine())
}

// report prints the figures, and fails if something did not happen at all.
func (r *run) report() {
	var forms []figures
	ended := map[string]int64{}
	for _, f := range r.forms {
		forms = append(forms, f.figures())
		for reason, n := range forms[len(forms)-1].ended {
			ended[string(reason)] += n
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s, %d writers: %d writes, %d that failed\n%d quiet points and %d moments in between compared with the server's lists\n",
		*seed, time.Since(r.began).Round(time.Second), *writers, r.writers.writes.Load(), r.writers.failures.Load(), r.quietTimes, r.moments)
	for i, p := range r.site.proxies {
		c := p.Counts()
		fmt.Fprintf(&b, "proxy %d: %d connections, %d of them cut\n", i+1, c.Accepted, c.Cut)
	}
	fmt.Fprintf(&b, "%d rewinds, of %v versions\n\n", len(r.takenBack), r.takenBack)
	b.WriteString(table(r.kinds, &r.several, forms))
	r.t.Logf("\n%s", b.String())
	happened := map[string]bool{
		"writes": r.writers.writes.Load() > 0, "moments": r.moments > 0, "rewinds": len(r.takenBack) > 0,
		"expired versions": ended["expired"] > 0, "lost connections": ended["network"] > 0,
	}
	for what, ok := range happened {
		if !ok {
			r.t.Errorf("there were no %s: this run proves little", what)
		}
	}
}

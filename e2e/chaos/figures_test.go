package chaos

import (
	"fmt"
	"maps"
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
	streamed            int64 // lists, the first included
	told                int   // changes, by all subscribers
	caughtUp            uint64
	ended               map[reflector.Reason]int64
	failed              int64 // requests, where nobody counts why
}

// recoveries are how long it took after faults of one kind until everything was current.
type recoveries struct {
	faults int
	took   []time.Duration
}

func (r *recoveries) row() string {
	if len(r.took) == 0 {
		return fmt.Sprintf("%d\t–\t–\t–", r.faults)
	}
	took := slices.Sorted(slices.Values(r.took))
	return fmt.Sprintf("%d\t%d\t%s\t%s", r.faults, len(took), round(took[len(took)/2]), round(took[len(took)-1]))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// table prints what happened.
func table(kinds map[string]*recoveries, forms []figures) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tstruck\tmeasured\trecovery p50\tmax")
	all := &recoveries{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(w, "%s\t%s\n", name, kinds[name].row())
		all.faults += kinds[name].faults
		all.took = append(all.took, kinds[name].took...)
	}
	fmt.Fprintf(w, "all\t%s\n", all.row())
	fmt.Fprintln(w)
	fmt.Fprintln(w, "form\tobjects\treceived\tno news\trelists\tstreamed lists\treconnects\ttold\tcaught up\twhy requests ended")
	for _, f := range forms {
		if f.ended == nil {
			fmt.Fprintf(w, "%s\t%d\t–\t–\t–\t–\t–\t%d\t–\tfailed %d\n", f.form, f.objects, f.told, f.failed)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", f.form, f.objects, f.received, f.stale,
			f.relists, f.streamed, f.reconnects, f.told, f.caughtUp, reasons(f.ended))
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

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// table prints the results of all sides, step by step.
func table(out io.Writer, s settings, results map[string][]result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d pods, %d custom resources, %d changes\n\n", s.pods, s.widgets, s.churn)
	fmt.Fprintln(w, "step\tside\twall\tCPU\tpeak memory\tlive heap\tlists\thandler calls\tcalls/s\tCPU per call\tgoroutines\t")
	for i := range results[s.sides()[0]] {
		for _, side := range s.sides() {
			r := results[side][i]
			goroutines := "–"
			if r.Goroutines > 0 {
				goroutines = fmt.Sprint(r.Goroutines)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f MiB\t%.1f MiB\t%d\t%d\t%s\t%s\t%s\t\n", r.Step, side, round(r.Wall), round(r.CPU),
				float64(r.Peak)/(1<<20), float64(r.Heap)/(1<<20), r.Lists, r.Events, rate(r), each(r), goroutines)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return readTable(out, s, results)
}

// readTable prints what reads cost, each beside the first side.
func readTable(out io.Writer, s settings, results map[string][]result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	sides := s.sides()
	for i, r := range results[sides[0]] {
		for j, first := range r.Reads {
			for _, side := range sides {
				of := results[side][i].Reads[j]
				fmt.Fprintf(w, "\n%s\t%s\t%s\t%d B\t%.2f×\t", of.Name, side, of.CPU, of.Bytes, float64(of.CPU)/float64(first.CPU))
			}
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// few is how many calls are too few to compute the cost of one.
const few = 100

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func rate(r result) string {
	if r.Events < few || r.Wall <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", float64(r.Events)/r.Wall.Seconds())
}

func each(r result) string {
	if r.Events < few {
		return "–"
	}
	return (r.CPU / time.Duration(r.Events)).Round(100 * time.Nanosecond).String()
}

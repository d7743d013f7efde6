package main

import "regexp"

// measure produces one row or several related ones.
type measure struct {
	name string // for -run
	run  func(*lab) []Row
	// apart is set if the measure does not need the lab's pods and stores, in most cases
	// because it runs in separate processes.
	apart bool
	// named is set if the measure runs only with a -run that matches its name and no other.
	named bool
}

// measures are all measures in the order of the table. Those with apart set come last, so that
// the lab can be emptied before.
var measures = []measure{
	{name: "snapshot", run: snapshots},
	{name: "get", run: quietGet},
	{name: "get-p99", run: getP99},
	{name: "longest-get", run: longestGet},
	{name: "visit", run: visitAll},
	{name: "index", run: indexLookup},
	{name: "selector", run: rareLabel},
	{name: "update", run: singleUpdates},
	{name: "update-batch", run: batchUpdates},
	{name: "insert-delete", run: insertDelete},
	{name: "replace-unchanged", run: replaceUnchanged},
	{name: "diff", run: diffs},
	{name: "memory", run: memory},
	{name: "fifo", run: fifoAddPop},

	{name: "snapshot-get", run: snapshotGet},
	{name: "visit-read", run: visitAndRead},
	{name: "namespace", run: namespaceRange},
	{name: "selector-two", run: twoRequirements},
	{name: "update-more", run: costlierUpdates},
	{name: "replace-initial", run: initialReplace},
	{name: "fifo-real", run: realFIFO},

	{name: "queue", run: queueAlone, apart: true},
	{name: "queue-contention", run: queueContention, apart: true},
	{name: "queue-delays", run: queueDelays, apart: true},
	{name: "queue-limited", run: queueLimited, apart: true},
	{name: "queue-priorities", run: queuePriorities, apart: true},
	{name: "queue-memory", run: queueMemory, apart: true},

	{name: "list-protobuf", run: listProtobuf, apart: true},
	{name: "list-json", run: listJSON, apart: true},
	{name: "list-custom", run: listCustom, apart: true},
	{name: "list-held", run: listHeld, apart: true},
	{name: "watch-events", run: watchEvents, apart: true},

	{name: "informer-events", run: informerEventRows, apart: true},
	{name: "informer-blocked", run: informerBlockedRows, apart: true},
	{name: "informer-relist", run: informerRelistRows, apart: true},
	{name: "informer-quiet", run: informerQuietRows, apart: true},
	{name: "informer-sync", run: informerSyncRows, apart: true},

	{name: "informer-compact", run: informerCompactRows, apart: true},
	{name: "custom-sync", run: customSyncRows, apart: true},

	{name: "controllers", run: controllerRows, apart: true},

	{name: "adapter-lister", run: adapterLister, apart: true},
	{name: "adapter-informer", run: adapterInformer, apart: true},

	{name: "million", run: millionRows, apart: true, named: true},
}

// selected returns the measures whose names match. Those that must be named are left out if others
// match, too.
func selected(run *regexp.Regexp) (of []measure) {
	var named []measure
	for _, m := range measures {
		switch {
		case !run.MatchString(m.name):
		case m.named:
			named = append(named, m)
		default:
			of = append(of, m)
		}
	}
	if len(of) == 0 {
		return named
	}
	return of
}

// keep uses a result, so that the compiler does not eliminate its computation.
//
//go:noinline
func keep(int) {}

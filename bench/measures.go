package main

// measure is something that is measured. It gives one row or several that belong together.
type measure struct {
	name string // for -run
	run  func(*lab) []Row
}

// measures are all of them, in the order of the table: those with a target first.
var measures = []measure{
	{"snapshot", snapshots},
	{"get", quietGet},
	{"get-p99", getP99},
	{"longest-get", longestGet},
	{"visit", visitAll},
	{"index", indexLookup},
	{"selector", rareLabel},
	{"update", singleUpdates},
	{"update-batch", batchUpdates},
	{"insert-delete", insertDelete},
	{"replace-unchanged", replaceUnchanged},
	{"diff", diffs},
	{"memory", memory},
	{"fifo", fifoAddPop},

	{"snapshot-get", snapshotGet},
	{"visit-read", visitAndRead},
	{"namespace", namespaceRange},
	{"selector-two", twoRequirements},
	{"update-more", costlierUpdates},
	{"replace-initial", initialReplace},
	{"fifo-real", realFIFO},
}

// keep uses a result, so that the compiler does not leave out what led to it.
//
//go:noinline
func keep(int) {}

// Package guard compares what the hot paths allocate with a checked-in baseline. Its test, which runs only with the flag -guard,
// fails if one of them allocates over a tenth more.
//
//	go test ./internal/guard -guard           compare
//	go test ./internal/guard -guard -update   write what is measured now into the baseline
//
// A line of baseline.txt is a package, one of its benchmarks, the number of iterations, and the
// allocations and bytes of each iteration. A - instead of a number is not compared: where several
// goroutines work, bytes depend on how they are scheduled. To guard another path, add a line with its package,
// benchmark and iterations, and run -update. Time is not compared: it depends on the machine and on
// what else runs there. Neither are instructions, because many virtual machines do not count them.
package guard

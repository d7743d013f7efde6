package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarnproject/tarn/apiserver"
)

// atRandom is the --faults that a bare flag stands for.
const atRandom = "random"

// addFaults gives a command the flag --faults, which needs no value.
func addFaults(flags *pflag.FlagSet, to *[]string) {
	flags.StringArrayVar(to, "faults", nil, "let requests fail: `SPEC` is random, random:RATE:SEED, or KIND[,name=value...]")
	flags.Lookup("faults").NoOptDefVal = atRandom
}

// faultArgs refuses arguments. One that stands behind --faults was meant to be its value.
func faultArgs(faults *[]string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && len(*faults) > 0 {
			if _, err := parseFaults(args[:1]); err == nil {
				return usagef("write --faults=%s, with an equals sign", args[0])
			}
			return usagef("%s takes no arguments, and was given %q; a value of --faults has an equals sign before it: --faults=%[2]s", cmd.CommandPath(), args[0])
		}
		return noArgs(cmd, args)
	}
}

// faultSpec is what --faults asks for. The zero faultSpec asks for nothing.
type faultSpec struct {
	rate    float64 // of random faults; 0 for none
	seed    uint64
	certain []apiserver.Fault
}

// parseFaults reads the values of --faults.
func parseFaults(specs []string) (f faultSpec, err error) {
	for _, spec := range specs {
		kind, rest, _ := strings.Cut(spec, ",")
		if name, numbers, _ := strings.Cut(kind, ":"); name == atRandom && rest == "" {
			if f.rate > 0 {
				return f, usagef("--faults=random is there twice")
			}
			if err := f.chance(spec, numbers); err != nil {
				return f, err
			}
			continue
		}
		fault, err := parseFault(spec, kind, rest)
		if err != nil {
			return f, err
		}
		f.certain = append(f.certain, fault)
	}
	return f, nil
}

// chance reads RATE:SEED, both of which may be missing.
func (f *faultSpec) chance(spec, numbers string) (err error) {
	f.rate, f.seed = 0.1, rand.Uint64N(1_000_000)
	rate, seed, seeded := strings.Cut(numbers, ":")
	if rate != "" {
		if f.rate, err = strconv.ParseFloat(rate, 64); err != nil || !(f.rate > 0 && f.rate <= 1) {
			return usagef("--faults=%s: the share of requests is a number above 0 and up to 1, such as 0.1", spec)
		}
	}
	if seeded {
		if f.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return usagef("--faults=%s: the seed is a whole number", spec)
		}
	}
	return nil
}

// parseFault reads KIND,name=value,…
func parseFault(spec, kind, settings string) (apiserver.Fault, error) {
	fault := apiserver.Fault{Kind: apiserver.FaultKind(kind)}
	if !slices.Contains(faultKinds, fault.Kind) {
		var known []string
		for _, k := range faultKinds {
			known = append(known, string(k))
		}
		return fault, usagef("--faults=%s: %q is not a fault; it is random, or one of %s", spec, kind, strings.Join(known, ", "))
	}
	for setting := range strings.SplitSeq(settings, ",") {
		if setting == "" {
			continue
		}
		name, value, _ := strings.Cut(setting, "=")
		var err error
		switch name {
		case "resource":
			fault.Resource = value
		case "verb":
			fault.Verb = value
		case "times":
			fault.Times, err = strconv.Atoi(value)
		case "after":
			fault.After, err = strconv.Atoi(value)
		case "wait":
			fault.Wait, err = time.ParseDuration(value)
		default:
			return fault, usagef("--faults=%s: %q is not a setting; they are resource, verb, times, after and wait", spec, name)
		}
		if err != nil {
			return fault, usagef("--faults=%s: %s=%s is not a value; write times=3, after=10 or wait=2s", spec, name, value)
		}
	}
	if err := fault.Validate(); err != nil {
		return fault, usagef("--faults=%s: %s", spec, strings.TrimPrefix(err.Error(), "apiserver: "))
	}
	return fault, nil
}

// checkChurn tells whether there can be so many writes a second.
func checkChurn(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 1) {
		return usagef("--churn must be a number of writes a second, 0 or more, and not %g", rate)
	}
	return nil
}

// any reports whether there is something to suffer.
func (f faultSpec) any() bool { return f.rate > 0 || len(f.certain) > 0 }

// inject makes the faults happen.
func (f faultSpec) inject(server *apiserver.Server) error {
	for _, fault := range f.certain {
		fault.MayMiss = true // there is no test that has to see it
		if _, err := server.Inject(fault); err != nil {
			return err
		}
	}
	if f.rate > 0 {
		server.Random(f.seed, f.rate)
	}
	return nil
}

// String says what is suffered, and how to have it again.
func (f faultSpec) String() string {
	var parts []string
	if f.rate > 0 {
		parts = append(parts, fmt.Sprintf("%g %% of requests at random (again with --faults=random:%g:%d)", f.rate*100, f.rate, f.seed))
	}
	for _, fault := range f.certain {
		text := string(fault.Kind)
		if fault.Resource != "" {
			text += " of " + fault.Resource
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// struck counts the requests that suffered, by kind.
func struck(server *apiserver.Server) (total int, kinds map[apiserver.FaultKind]int) {
	kinds = map[apiserver.FaultKind]int{}
	for _, kind := range faultKinds {
		if n := server.Struck(kind); n > 0 {
			kinds[kind] = n
			total += n
		}
	}
	return total, kinds
}

var faultKinds = []apiserver.FaultKind{
	apiserver.Unauthorized, apiserver.Forbidden, apiserver.NotServed, apiserver.Gone, apiserver.TooManyRequests,
	apiserver.InternalError, apiserver.Unavailable, apiserver.Latency, apiserver.Stall, apiserver.TruncateBody,
	apiserver.Refuse, apiserver.EmptyPage, apiserver.CutWatch, apiserver.EndWatch, apiserver.GoneEvent,
	apiserver.ErrorEvent, apiserver.TruncateFrame, apiserver.CorruptFrame, apiserver.DuplicateEvent,
	apiserver.StaleEvent, apiserver.DropBookmarks,
}

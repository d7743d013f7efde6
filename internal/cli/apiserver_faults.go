package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarnproject/tarn/apiserver"
)

// randomSpec is the value of a bare --faults.
const randomSpec = "random"

// addFaults adds the flag --faults, whose value is optional.
func addFaults(cmd *cobra.Command, to *[]string) {
	flags := cmd.Flags()
	flags.StringArrayVar(to, "faults", nil, "inject faults: `SPEC` is random, random:RATE:SEED, or KIND[,name=value...]")
	flags.Lookup("faults").NoOptDefVal = randomSpec
	complete(cmd, "faults", fixed(append(knownFaults(), randomSpec)...))
}

func knownFaults() (kinds []string) {
	for _, k := range faultKinds {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// faultArgs rejects arguments. An argument after --faults was probably meant as its value.
func faultArgs(faults *[]string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && len(*faults) > 0 {
			if _, err := parseFaults(args[:1]); err == nil {
				return usagef("--faults needs an equals sign: --faults=%s", args[0])
			}
			return usagef("%s takes no arguments, got %q; --faults needs an equals sign: --faults=%[2]s", cmd.CommandPath(), args[0])
		}
		return noArgs(cmd, args)
	}
}

// faultSpec is the parsed value of --faults. The zero value injects nothing.
type faultSpec struct {
	rate    float64 // rate of random faults; 0 for none
	seed    uint64
	certain []apiserver.Fault
}

// parseFaults parses the values of --faults.
func parseFaults(specs []string) (f faultSpec, err error) {
	for _, spec := range specs {
		kind, rest, _ := strings.Cut(spec, ",")
		if name, numbers, _ := strings.Cut(kind, ":"); name == randomSpec && rest == "" {
			if f.rate > 0 {
				return f, usagef("--faults=random is given twice")
			}
			if err := f.parseRandom(spec, numbers); err != nil {
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

// parseRandom parses RATE:SEED; both are optional.
func (f *faultSpec) parseRandom(spec, numbers string) (err error) {
	f.rate, f.seed = 0.1, rand.Uint64N(1_000_000)
	rate, seed, seeded := strings.Cut(numbers, ":")
	if rate != "" {
		if f.rate, err = strconv.ParseFloat(rate, 64); err != nil || !(f.rate > 0 && f.rate <= 1) {
			return usagef("--faults=%s: the rate must be above 0 and at most 1, such as 0.1", spec)
		}
	}
	if seeded {
		if f.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return usagef("--faults=%s: the seed must be an unsigned integer", spec)
		}
	}
	return nil
}

// parseFault parses KIND,name=value,...
func parseFault(spec, kind, settings string) (apiserver.Fault, error) {
	fault := apiserver.Fault{Kind: apiserver.FaultKind(kind)}
	if !slices.Contains(faultKinds, fault.Kind) {
		return fault, usagef("--faults=%s: unknown fault kind %q: must be random or one of %s", spec, kind, strings.Join(knownFaults(), ", "))
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
		case "for":
			fault.For, err = time.ParseDuration(value)
		case "after":
			fault.After, err = strconv.Atoi(value)
		case "wait":
			fault.Wait, err = time.ParseDuration(value)
		default:
			return fault, usagef("--faults=%s: unknown setting %q: must be one of %s", spec, name, strings.Join(faultSettings, ", "))
		}
		if err != nil {
			return fault, usagef("--faults=%s: invalid value in %s=%s; use times=3, after=10 or wait=2s", spec, name, value)
		}
	}
	if err := fault.Validate(); err != nil {
		return fault, usagef("--faults=%s: %s", spec, strings.TrimPrefix(err.Error(), "apiserver: "))
	}
	return fault, nil
}

// checkChurn validates a number of writes per second.
func checkChurn(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 1) {
		return usagef("--churn must be 0 or more writes per second, got %g", rate)
	}
	return nil
}

// any reports whether there are faults to inject.
func (f faultSpec) any() bool { return f.rate > 0 || len(f.certain) > 0 }

// inject injects the faults.
func (f faultSpec) inject(server *apiserver.Server) error {
	for _, fault := range f.certain {
		fault.Optional = true // only a test needs to know if it hit
		if _, err := server.Inject(fault); err != nil {
			return err
		}
	}
	if f.rate > 0 {
		server.Random(f.seed, f.rate)
	}
	return nil
}

// String describes the faults, including how to reproduce random ones.
func (f faultSpec) String() string {
	var parts []string
	if f.rate > 0 {
		parts = append(parts, fmt.Sprintf("%g %% of requests at random (repeat with --faults=random:%g:%d)", f.rate*100, f.rate, f.seed))
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

// faultSettings are the settings of a fault in --faults.
var faultSettings = []string{"resource", "verb", "times", "for", "after", "wait"}

var faultKinds = apiserver.FaultKinds()

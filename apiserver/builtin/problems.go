package builtin

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The roots of paths. Paths are immutable.
var (
	spec   = field.NewPath("spec")
	status = field.NewPath("status")
)

// problems collects the errors of an object in the order in which kube-apiserver finds them.
type problems struct{ list field.ErrorList }

func (p *problems) add(errs ...*field.Error) { p.list = append(p.list, errs...) }

func (p *problems) required(at *field.Path, detail string) { p.add(field.Required(at, detail)) }

func (p *problems) forbidden(at *field.Path, detail string) { p.add(field.Forbidden(at, detail)) }

func (p *problems) duplicate(at *field.Path, value any) { p.add(field.Duplicate(at, value)) }

func (p *problems) invalid(at *field.Path, value any, details ...string) {
	for _, detail := range details {
		p.add(field.Invalid(at, value, detail))
	}
}

// label checks a DNS label.
func (p *problems) label(at *field.Path, value string) {
	p.invalid(at, value, utilvalidation.IsDNS1123Label(value)...)
}

// need checks that a text is not empty.
func (p *problems) need(at *field.Path, value string) bool {
	if value == "" {
		p.required(at, "")
	}
	return value != ""
}

// needValid checks a text that must not be empty with a function that returns what is wrong.
func (p *problems) needValid(at *field.Path, value string, check func(string) []string) {
	if p.need(at, value) {
		p.invalid(at, value, check(value)...)
	}
}

// requiredLabel checks a DNS label that must not be empty.
func (p *problems) requiredLabel(at *field.Path, value string) {
	p.needValid(at, value, utilvalidation.IsDNS1123Label)
}

// isSet says whether a field has a value.
type isSet struct {
	name string
	set  bool
}

// unset checks that fields have no values.
func (p *problems) unset(at *field.Path, why string, fields []isSet) {
	for _, f := range fields {
		if f.set {
			p.forbidden(at.Child(f.name), why)
		}
	}
}

// kindAndName checks those of a reference.
func (p *problems) kindAndName(at *field.Path, kind, name string) {
	p.needValid(at.Child("kind"), kind, content.IsPathSegmentName)
	p.needValid(at.Child("name"), name, content.IsPathSegmentName)
}

// subdomain checks a DNS subdomain.
func (p *problems) subdomain(at *field.Path, value string) {
	p.invalid(at, value, utilvalidation.IsDNS1123Subdomain(value)...)
}

// portNumber checks the number of a port.
func (p *problems) portNumber(at *field.Path, port int32) {
	p.invalid(at, port, utilvalidation.IsValidPortNum(int(port))...)
}

// port checks the number or name of a port.
func (p *problems) port(at *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		p.invalid(at, port.StrVal, utilvalidation.IsValidPortName(port.StrVal)...)
		return
	}
	p.portNumber(at, port.IntVal)
}

// notNegative checks a number, which may be nil.
func notNegative[T int32 | int64](p *problems, at *field.Path, n *T) {
	if n != nil {
		p.add(validation.ValidateNonnegativeField(int64(*n), at)...)
	}
}

// immutable checks that a field did not change.
func (p *problems) immutable(at *field.Path, now, before any) {
	p.add(validation.ValidateImmutableField(now, before, at)...)
}

// labelSelector checks a label selector, which may be nil.
func (p *problems) labelSelector(at *field.Path, selector *metav1.LabelSelector) {
	p.add(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)...)
}

// oneOf checks a value that must not be empty.
func oneOf[T ~string](p *problems, at *field.Path, value T, allowed ...T) {
	if value == "" {
		p.required(at, "")
		return
	}
	emptyOr(p, at, value, allowed...)
}

// emptyOr checks a value that may be empty.
func emptyOr[T ~string](p *problems, at *field.Path, value T, allowed ...T) {
	if value != "" && !slices.Contains(allowed, value) {
		p.add(field.NotSupported(at, value, allowed))
	}
}

// sortedKeys returns the keys of a map in order, so that errors are the same in every run.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// setDefault sets a pointer that is nil.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// setText sets a text that is empty.
func setText[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

// setNumber sets a number that is zero.
func setNumber[T int32 | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// valueOf returns the value of a pointer, or the zero value if it is nil.
func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/status"
	"github.com/tarnproject/tarn/wire"
)

// Causes that keep any number of mirrors from being live. Another one is the text of its error.
const (
	unreachable  = "unreachable" // nothing answers at the address of the API server
	unauthorized = "unauthorized"
	forbidden    = "forbidden"
	notServed    = "not served"
	slowList     = "slow list"
)

// sharedCause returns the cause of an error that is not about one object or resource; otherwise "".
func sharedCause(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var answer *wire.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return unauthorized
	case errors.As(err, &answer) && (answer.Code >= 500 || answer.Code == http.StatusTooManyRequests):
		return fmt.Sprintf("status %d", answer.Code)
	case errors.As(err, &answer):
		return ""
	case errors.As(err, &op), errors.As(err, &dns), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unreachable
	}
	return ""
}

// withoutCall returns the text of an error without the request that it is about.
func withoutCall(err error) string {
	var transport *wire.TransportError
	var answer *wire.Error
	var request *url.Error
	switch {
	case errors.As(err, &answer):
		err = answer.Unwrap()
	case errors.As(err, &transport):
		err = transport.Err
	case errors.As(err, &request):
		err = request.Err
	}
	return oneLine(err)
}

// stuck is a mirror, or one of its sources, that is not live.
type stuck struct {
	mirror *MirrorStatus
	source *informer.SourceStatus // nil if the server does not serve the resource
	err    error
}

// mirrors reports why mirrors are not live, once for each cause.
func (ps *problems) mirrors(s *Status) {
	var causes []string
	by := map[string][]stuck{}
	add := func(cause string, x stuck) {
		if by[cause] == nil {
			causes = append(causes, cause)
		}
		by[cause] = append(by[cause], x)
	}
	for i := range s.Mirrors {
		m := &s.Mirrors[i]
		if m.State == status.Waiting {
			add(notServed, stuck{mirror: m, err: m.Cause})
		}
		if m.State != status.Syncing && m.State != status.Stale {
			continue
		}
		for j := range m.Informer.Sources {
			src := &m.Informer.Sources[j]
			r, err := &src.Reflector, src.Err()
			switch {
			case err == nil && !src.Listed && !r.Since.IsZero() && s.Time.Sub(r.Since) > listTime:
				add(slowList, stuck{m, src, nil})
			case err == nil:
			case apierrors.IsForbidden(err):
				add(forbidden, stuck{m, src, err})
			default:
				add(cmp.Or(sharedCause(err), withoutCall(err)), stuck{m, src, err})
			}
		}
	}
	for _, cause := range causes {
		ps.causes[cause] = len(ps.all)
		ps.add(notLive(s, cause, by[cause]))
	}
}

// notLive describes a cause and the mirrors that it affects.
func notLive(s *Status, cause string, all []stuck) Problem {
	first := all[0]
	res := first.mirror.Resource
	names, resources := []string{}, []object.Resource{}
	for _, x := range all {
		if !slices.Contains(names, x.mirror.Name) {
			names = append(names, x.mirror.Name)
		}
		if !slices.Contains(resources, x.mirror.Resource) {
			resources = append(resources, x.mirror.Resource)
		}
	}
	p := Problem{Severity: "error", Subject: "mirror/" + names[0]}
	where := ""
	if len(names) > 1 {
		p.Subject, p.Mirrors = "mirrors", names[:min(len(names), maxAffected)]
	} else if len(all) > 1 {
		where = fmt.Sprintf(" in %d namespaces", len(all))
	} else if x := first.source; x != nil && x.Scope != object.Everything {
		where = " in the namespace " + string(x.Scope)
	}
	what := res.String() // which resources
	if len(resources) > 1 {
		what = fmt.Sprintf("%d resources, such as %s", len(resources), res)
	}
	switch {
	case cause == notServed && len(resources) > 1:
		p.What = fmt.Sprintf("The server does not serve %s in version %s.", what, res.Version)
		p.Do = "Install their CustomResourceDefinitions, or correct the groups and versions; the mirrors start when the server serves them."
	case cause == notServed:
		p.What = fmt.Sprintf("The server does not serve %s in version %s.", res, res.Version)
		p.Do = fmt.Sprintf("Install its CustomResourceDefinition (kubectl get crd %s), or correct the group and version; the mirror starts when the server serves it.", res)
	case cause == forbidden:
		p.What = fmt.Sprintf("The program may not list or watch %s: %s.", what, oneLine(first.err))
		p.Do = "Allow list and watch in a role of its user or service account; mirrors start by themselves."
		p.YAML = missingRoles(all)
	case cause == unauthorized:
		p.What, p.Do = fmt.Sprintf("The API server rejects the program's credentials: %s.", oneLine(first.err)), "Check the service account or the kubeconfig."
	case cause == slowList && len(names) > 1:
		p.What = fmt.Sprintf("The first lists of %d mirrors take longer than %s, such as that of %s.", len(names), inWords(listTime), names[0])
	case cause == slowList:
		p.What = fmt.Sprintf("The first list of %s%s takes longer than %s.", res, where, inWords(listTime))
	case len(names) > 1:
		p.What = fmt.Sprintf("%d mirrors are not live, such as %s: %s.", len(names), names[0], withoutCall(first.err))
		p.Do = "Their last states are readable. " + retrying(s, &first.source.Reflector, first.err)
	case !first.source.Listed:
		p.What, p.Do = fmt.Sprintf("%s%s cannot be listed: %s.", res, where, oneLine(first.err)), retrying(s, &first.source.Reflector, first.err)
	default:
		since := ""
		if at := first.source.Reflector.LastEvent; !at.IsZero() {
			since = " since " + stamp(at)
		}
		p.What = fmt.Sprintf("No changes of %s%s arrive%s: %s.", res, where, since, oneLine(first.err))
		p.Do = "The last state is readable. " + retrying(s, &first.source.Reflector, first.err)
	}
	if cause == slowList {
		p.Severity, p.Do = "warning", "The API server or the network is slow, or other lists go first."
	}
	return p
}

// retrying says what to do about a request that failed.
func retrying(s *Status, r *reflector.Status, err error) string {
	when, check := "", "check the API server and the network"
	if r.State == reflector.BackingOff && r.Until.After(s.Time) {
		when = " in " + inWords(r.Until.Sub(s.Time))
	}
	switch {
	case apierrors.IsTooManyRequests(err):
		check = "the server is overloaded or limits this user: check API priority and fairness"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, object.ErrIdle):
		check = "check whether a proxy delays responses"
	case errors.Is(err, object.ErrCorrupt):
		check = "check whether a proxy modifies responses"
	}
	return fmt.Sprintf("The mirror retries%s; if that lasts, %s.", when, check)
}

// missingRoles returns the roles that allow mirrors to list and watch, one for each scope, as YAML.
func missingRoles(all []stuck) (text string) {
	var scopes []object.Scope
	rules := map[object.Scope][]rbacv1.PolicyRule{}
	for _, x := range all {
		scope, res := x.source.Scope, x.mirror.Resource
		if rules[scope] == nil {
			scopes = append(scopes, scope)
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{res.Group}, Resources: []string{res.Resource}, Verbs: []string{"list", "watch"}}
		if !slices.ContainsFunc(rules[scope], func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == res.Group && r.Resources[0] == res.Resource }) {
			rules[scope] = append(rules[scope], rule)
		}
	}
	for i, scope := range scopes {
		var role any = &rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "tarn"}, Rules: rules[scope],
		}
		if scope != object.Everything {
			role = &rbacv1.Role{
				TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: "tarn", Namespace: string(scope)}, Rules: rules[scope],
			}
		}
		data, err := yaml.Marshal(role)
		if err != nil {
			return ""
		}
		if i > 0 {
			text += "---\n"
		}
		text += string(data)
	}
	return text
}

var (
	words  = regexp.MustCompile(`[0-9A-Za-z](?:[-.0-9A-Za-z]*[0-9A-Za-z])?`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// alike returns a text that is equal for the errors of keys that have one cause: the error without
// the key, what is named after it, and numbers.
func alike(f controller.Failure) string {
	if cause := sharedCause(f.Err); cause != "" {
		return cause
	}
	parts := strings.Split(fmt.Sprint(f.Key), "/")
	return words.ReplaceAllStringFunc(oneLine(f.Err), func(word string) string {
		for _, part := range parts {
			if rest, ok := strings.CutPrefix(word, part); ok && part != "" && (rest == "" || rest[0] == '-' || rest[0] == '.') {
				return "*"
			}
		}
		return digits.ReplaceAllString(word, "#")
	})
}

// failing reports the keys of a controller that fail, once for each cause.
func (ps *problems) failing(c *controller.Status) {
	by := map[string][]controller.Failure{}
	var causes []string
	for _, f := range c.Failures {
		cause := alike(f)
		if by[cause] == nil {
			causes = append(causes, cause)
		}
		by[cause] = append(by[cause], f)
	}
	slices.SortStableFunc(causes, func(a, b string) int { return len(by[b]) - len(by[a]) })
	const others = "others"
	if len(causes) > maxErrors {
		for _, cause := range causes[maxErrors-1:] {
			by[others] = append(by[others], by[cause]...)
		}
		causes = append(causes[:maxErrors-1], others)
	}
	most := c.Failing > 1 && 2*c.Failing > c.Keys && c.Keys > 0
	for _, cause := range causes {
		all := by[cause]
		n, atLeast := len(all), c.MoreFailures
		if len(causes) == 1 && c.Failing > n {
			n, atLeast = c.Failing, false
		}
		fail := "keys of the controller %s fail"
		if n == 1 {
			fail = "key of the controller %s fails"
		}
		if ps.follows(cause, fmt.Sprintf("%s "+fail, thousands(n), c.Name)) {
			continue
		}
		worst := slices.MaxFunc(all, func(a, b controller.Failure) int { return cmp.Compare(a.Attempt, b.Attempt) })
		number := counted(uint64(n), "key fails", "keys fail")
		if most {
			number = fmt.Sprintf("%s of %s fail", thousands(n), counted(uint64(c.Keys), "key", "keys"))
		}
		if atLeast {
			number = "At least " + number
		}
		if cause == others {
			number += " with other errors"
		}
		p := Problem{
			Severity: "warning", Subject: "controller/" + c.Name, Do: "Fix what the error says; explain a key for its next attempt.",
			What: fmt.Sprintf("%s, such as %v at attempt %d: %s.", number, worst.Key, worst.Attempt, oneLine(worst.Err)),
		}
		if most || worst.Attempt >= manyRetries {
			p.Severity = "error"
		}
		for _, f := range all[:min(len(all), maxAffected)] {
			p.Keys = append(p.Keys, fmt.Sprint(f.Key))
		}
		ps.add(p)
	}
}

package access

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unHTML prevents that an error looks like a page.
var unHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Authorize returns an error, and records the denial, if a user may not do something.
func (s *Control) Authorize(u *User, a Attributes) error {
	ok, reason := s.allowed(u, a)
	if ok {
		return nil
	}
	return s.deny(u, a, reason)
}

// deny records that a user may not do something and returns the error for it.
func (s *Control) deny(u *User, a Attributes, reason string) error {
	text := unHTML.Replace(fmt.Sprintf("User %q cannot %v", u.Username, a))
	s.denials.add(text)
	s.onDeny(u, a)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, fmt.Errorf("%s", text))
}

// allowed reports whether a user may do something, and which binding allows it or why the
// rules could not be resolved.
func (s *Control) allowed(u *User, a Attributes) (ok bool, reason string) {
	if !s.evaluates || slices.Contains(u.Groups, masters) {
		return true, ""
	}
	return s.rbac.allowed(s.storage, u, a)
}

package access

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// Identify authenticates and authorizes a request, and returns it with its user.
func (s *Control) Identify(req *http.Request) (*http.Request, error) {
	u, err := s.authenticate(req)
	if err == nil {
		u, err = s.impersonate(req, u)
	}
	if err == nil && s.evaluates {
		err = s.Authorize(u, AttributesOf(req))
	}
	if err != nil {
		return req, err
	}
	return req.WithContext(context.WithValue(req.Context(), userKey{}, u)), nil
}

// authenticate returns the user of the bearer token. Without Options.RBAC, a client without
// a token of this server is an administrator.
func (s *Control) authenticate(req *http.Request) (*User, error) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if ok && token != "" {
		u, _, err := s.userOfToken(token, []string{Audience})
		if err == nil {
			return u, nil
		}
		if s.evaluates {
			return nil, unauthorized()
		}
	}
	if s.evaluates {
		return &User{Username: anonymous, Groups: []string{unauthenticated}}, nil
	}
	return administrator, nil
}

// unauthorized is the error for a token that is not valid.
func unauthorized() error {
	err := apierrors.NewUnauthorized("Unauthorized")
	err.ErrStatus.Message = "Unauthorized"
	return err
}

// impersonate returns the user that the Impersonate headers name, or u if there are none.
func (s *Control) impersonate(req *http.Request, u *User) (*User, error) {
	h := req.Header
	as := &User{Username: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader), Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader])}
	for name, values := range h {
		if key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix); ok {
			key = strings.ToLower(key)
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if as.Extra == nil {
				as.Extra = map[string]authenticationv1.ExtraValue{}
			}
			as.Extra[key] = values
		}
	}
	if as.Username == "" {
		if as.UID != "" || as.Groups != nil || as.Extra != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("requested UID %q, groups %q, extra %v without impersonating a user name", as.UID, as.Groups, as.Extra))
		}
		return u, nil
	}
	mode, err := s.checkImpersonation(u, as, AttributesOf(req))
	if err != nil {
		return nil, err
	}
	if mode == associatedNode || mode == arbitraryNode {
		as.Groups = []string{"system:nodes"}
	}
	if namespace, _, err := serviceaccount.SplitUsername(as.Username); err == nil && as.Groups == nil {
		as.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	group, known := authenticated, []string{authenticated, unauthenticated}
	if as.Username == anonymous {
		group, known = unauthenticated, []string{unauthenticated}
	}
	if !slices.ContainsFunc(as.Groups, func(g string) bool { return slices.Contains(known, g) }) {
		as.Groups = append(as.Groups, group)
	}
	return as, nil
}

// AdminToken returns the token of the server's own configs. Without Options.RBAC they need
// none.
func (s *Control) AdminToken() string {
	if !s.evaluates {
		return ""
	}
	return s.tokens.sign(claims{Subject: administrator.Username, Groups: administrator.Groups, Audience: []string{Audience}, ID: s.newUID()})
}

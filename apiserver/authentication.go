package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/object"
)

// user is the user of a request. It is never modified after authentication.
type user = authenticationv1.UserInfo

const (
	anonymous       = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	masters         = "system:masters" // may do everything
	accountPrefix   = "system:serviceaccount:"
)

// administrator is the user of [Server.Config].
var administrator = &user{Username: "admin", Groups: []string{masters, authenticated}}

// ConfigFor returns a client config for a user, who is also in the group
// system:authenticated. Without [Options.RBAC] the user may do everything. The config has
// a bearer token; set it in the config of a [Process] to run that as the user.
func (s *Server) ConfigFor(user string, groups ...string) *rest.Config {
	cfg := s.Config()
	cfg.BearerToken = s.tokens.sign(claims{Subject: user, Groups: groups, Audience: []string{audience}, ID: s.newUID()})
	return cfg
}

// ServiceAccountConfig returns a client config for a ServiceAccount, which it creates if it
// does not exist. The token does not expire, but is invalid once the ServiceAccount is
// deleted.
func (s *Server) ServiceAccountConfig(namespace, name string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if _, err := s.Create(account); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	k, err := s.kindOf(account)
	if err != nil {
		return nil, err
	}
	rec := s.storage.Get(k, object.Key{Namespace: namespace, Name: name})
	if rec == nil {
		return nil, kinds.NotFound(k, name) // deleted in the meantime
	}
	cfg := s.Config()
	cfg.BearerToken = s.tokens.sign(s.accountClaims(rec, []string{audience}))
	return cfg, nil
}

// access authenticates and authorizes a request, and returns it with its user.
func (s *Server) access(req *http.Request) (*http.Request, error) {
	u, err := s.authenticate(req)
	if err == nil {
		u, err = s.impersonate(req, u)
	}
	if err == nil && s.opts.RBAC {
		err = s.authorize(u, attributesOf(req))
	}
	if err != nil {
		return req, err
	}
	return req.WithContext(context.WithValue(req.Context(), userKey{}, u)), nil
}

type userKey struct{}

// userOf returns the user of a request that was authenticated.
func userOf(ctx context.Context) *user { return ctx.Value(userKey{}).(*user) }

// authenticate returns the user of the bearer token. Without Options.RBAC, a client without
// a token of this server is an administrator.
func (s *Server) authenticate(req *http.Request) (*user, error) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if ok && token != "" {
		u, _, err := s.userOfToken(token, []string{audience})
		if err == nil {
			return u, nil
		}
		if s.opts.RBAC {
			return nil, unauthorized()
		}
	}
	if s.opts.RBAC {
		return &user{Username: anonymous, Groups: []string{unauthenticated}}, nil
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
func (s *Server) impersonate(req *http.Request, u *user) (*user, error) {
	h := req.Header
	as := &user{Username: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader), Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader])}
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
	mode, err := s.checkImpersonation(u, as, attributesOf(req))
	if err != nil {
		return nil, err
	}
	if mode == associatedNode || mode == arbitraryNode {
		as.Groups = []string{"system:nodes"}
	}
	if namespace, _, ok := splitAccount(as.Username); ok && as.Groups == nil {
		as.Groups = accountGroups(namespace)
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

// splitAccount splits the user name of a ServiceAccount.
func splitAccount(username string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(username, accountPrefix)
	namespace, name, found := strings.Cut(rest, ":")
	return namespace, name, ok && found && namespace != "" && name != "" && !strings.Contains(name, ":")
}

func accountGroups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// adminToken returns the token of the server's own configs. Without Options.RBAC they need
// none.
func (s *Server) adminToken() string {
	if !s.opts.RBAC {
		return ""
	}
	return s.tokens.sign(claims{Subject: administrator.Username, Groups: administrator.Groups, Audience: []string{audience}, ID: s.newUID()})
}

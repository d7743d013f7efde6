package apiserver

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ConfigFor returns a client config for a user, who is also in the group
// system:authenticated. Without [Options.RBAC] the user may do everything. The config has
// a bearer token; set it in the config of a [Process] to run that as the user.
func (s *Server) ConfigFor(user string, groups ...string) *rest.Config {
	cfg := s.Config()
	cfg.BearerToken = s.access.ConfigToken(user, groups)
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
	k, err := s.registry.KindOf(account)
	if err != nil {
		return nil, err
	}
	rec := s.storage.Get(k, object.Key{Namespace: namespace, Name: name})
	if rec == nil {
		return nil, kinds.NotFound(k, name) // deleted in the meantime
	}
	cfg := s.Config()
	cfg.BearerToken = s.access.AccountToken(rec)
	return cfg, nil
}

// EvaluatesRBAC reports whether requests need permissions: [Options.RBAC] was set.
func (s *Server) EvaluatesRBAC() bool { return s.opts.RBAC }

// Denied returns what clients were not permitted to do, each once, in the order of the first
// attempts. A line is the message of the response without the object's name:
//
//	User "system:serviceaccount:shop:operator" cannot patch resource "deployments" in API group "apps" in the namespace "shop"
//
// or, for a role or binding with permissions that its author does not have, what is missing. Only a server
// with [Options.RBAC] denies requests. It remembers the last 1,000 denials.
func (s *Server) Denied() []string { return s.access.Denied() }

// HandleWebhook serves the admission webhooks whose clientConfig names a service: they call
// the handler in this process, without TLS. The handler must return when the context of its
// request ends. A nil handler removes the service. Webhooks with a URL are called over HTTPS.
func (s *Server) HandleWebhook(namespace, service string, h http.Handler) {
	s.webhooks.Handle(namespace, service, h)
}

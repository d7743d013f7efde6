package access

import (
	"slices"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
)

// Control decides who a client is and what it may do, by the stored ServiceAccounts, roles and bindings.
// Without evaluates, every client may do everything.
type Control struct {
	evaluates bool // Options.RBAC
	storage   *storage.Storage
	catalog   *kinds.Catalog
	newUID    func() string
	onDeny    func(*User, Attributes) // called for every request that is denied
	tokens    tokenKey
	rbac      rbac
	denials   denials
}

// New returns the control of a server. onDeny is called for every request that is denied.
func New(evaluates bool, records *storage.Storage, catalog *kinds.Catalog, newUID func() string, onDeny func(*User, Attributes)) *Control {
	return &Control{evaluates: evaluates, storage: records, catalog: catalog, newUID: newUID, onDeny: onDeny}
}

// ConfigToken returns a token for a user, who is also in the group system:authenticated.
func (s *Control) ConfigToken(user string, groups []string) string {
	return s.tokens.sign(claims{Subject: user, Groups: groups, Audience: []string{Audience}, ID: s.newUID()})
}

// AccountToken returns a token for a ServiceAccount that does not expire.
func (s *Control) AccountToken(account *kinds.Record) string {
	return s.tokens.sign(s.accountClaims(account, []string{Audience}))
}

// Denied returns what clients were not permitted to do.
func (s *Control) Denied() []string {
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	return slices.Clone(s.denials.all)
}

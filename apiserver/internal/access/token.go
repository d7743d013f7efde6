package access

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const (
	// Audience is the issuer of tokens, and the audience of those for this server.
	Audience = "https://kubernetes.default.svc"
	// tokenLeeway is how long a token is accepted after its expiry.
	tokenLeeway = time.Minute
	credential  = "authentication.kubernetes.io/credential-id"
)

// claims is the content of a token. The token of a ServiceAccount has Kubernetes, that of
// another user has Groups.
type claims struct {
	Issuer     string      `json:"iss"`
	Subject    string      `json:"sub"`
	Audience   []string    `json:"aud"`
	Expires    int64       `json:"exp,omitempty"`
	Issued     int64       `json:"iat"`
	NotBefore  int64       `json:"nbf"`
	ID         string      `json:"jti"`
	Groups     []string    `json:"groups,omitempty"`
	Kubernetes *tokenBound `json:"kubernetes.io,omitempty"`
}

// tokenBound names the objects that a token is bound to: it is valid while all exist.
type tokenBound struct {
	Namespace      string       `json:"namespace"`
	ServiceAccount tokenObject  `json:"serviceaccount"`
	Pod            *tokenObject `json:"pod,omitempty"`
	Secret         *tokenObject `json:"secret,omitempty"`
	Node           *tokenObject `json:"node,omitempty"`
}

type tokenObject struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// tokenKey signs tokens as JSON Web Tokens, with a key that it creates for the first one.
type tokenKey struct {
	once    sync.Once // sets private
	private ed25519.PrivateKey
}

func (k *tokenKey) key() ed25519.PrivateKey {
	k.once.Do(func() { _, k.private, _ = ed25519.GenerateKey(nil) }) // crypto/rand never fails
	return k.private
}

// sign returns the token for claims, which it issues now.
func (k *tokenKey) sign(c claims) string {
	c.Issuer, c.Issued = Audience, time.Now().Unix()
	c.NotBefore = c.Issued
	body, err := json.Marshal(c)
	if err != nil {
		panic("apiserver: " + err.Error()) // strings and numbers only
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.key(), []byte(text)))
}

// verify returns the claims of a token that this server signed.
func (k *tokenKey) verify(token string) (c claims, ok bool) {
	last := max(strings.LastIndexByte(token, '.'), 0)
	text, signature := token[:last], strings.TrimPrefix(token[last:], ".")
	_, body, _ := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	signed, err2 := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || err2 != nil || !ed25519.Verify(k.key().Public().(ed25519.PublicKey), []byte(text), signed) || json.Unmarshal(raw, &c) != nil {
		return claims{}, false
	}
	return c, true
}

// userOfToken returns the user of a token and the requested audiences that it is for, or why it
// is not valid.
func (s *Control) userOfToken(token string, audiences []string) (*User, []string, error) {
	c, ok := s.tokens.verify(token)
	matching := slices.DeleteFunc(slices.Clone(audiences), func(a string) bool { return !slices.Contains(c.Audience, a) })
	switch {
	case !ok:
		return nil, nil, errors.New("invalid bearer token")
	case len(matching) == 0:
		return nil, nil, fmt.Errorf("[invalid bearer token, token audiences %q is invalid for the target audiences %q]", c.Audience, audiences)
	case c.Expires > 0 && !time.Now().Before(time.Unix(c.Expires, 0).Add(tokenLeeway)):
		return nil, nil, errors.New("[invalid bearer token, service account token has expired]")
	case c.Kubernetes != nil && !s.bound(c.Kubernetes):
		return nil, nil, errors.New("[invalid bearer token, service account token has been invalidated]")
	}
	u := &User{Username: c.Subject, Groups: slices.Clone(c.Groups), Extra: map[string]authenticationv1.ExtraValue{credential: {"JTI=" + c.ID}}}
	if b := c.Kubernetes; b != nil {
		u.UID, u.Groups = string(b.ServiceAccount.UID), serviceaccount.MakeGroupNames(b.Namespace)
		for kind, ref := range map[string]*tokenObject{"pod": b.Pod, "node": b.Node} {
			if ref != nil {
				u.Extra["authentication.kubernetes.io/"+kind+"-name"] = authenticationv1.ExtraValue{ref.Name}
				u.Extra["authentication.kubernetes.io/"+kind+"-uid"] = authenticationv1.ExtraValue{string(ref.UID)}
			}
		}
	}
	if !slices.Contains(u.Groups, authenticated) {
		u.Groups = append(u.Groups, authenticated)
	}
	return u, matching, nil
}

// bound reports whether the objects that a token is bound to still exist.
func (s *Control) bound(b *tokenBound) bool {
	return s.hasUID("serviceaccounts", b.Namespace, &b.ServiceAccount) && s.hasUID("pods", b.Namespace, b.Pod) &&
		s.hasUID("secrets", b.Namespace, b.Secret) && (b.Pod != nil || s.hasUID("nodes", "", b.Node))
}

func (s *Control) hasUID(resource, namespace string, ref *tokenObject) bool {
	if ref == nil {
		return true
	}
	_, rec := s.core(resource, namespace, ref.Name)
	return rec != nil && rec.Meta.GetUID() == ref.UID
}

// core returns an object of the core group, or nil.
func (s *Control) core(resource, namespace, name string) (*kinds.Kind, *kinds.Record) {
	k, err := s.catalog.Get(corev1.SchemeGroupVersion.WithResource(resource))
	if err != nil {
		panic("apiserver: " + err.Error()) // built-in kinds are always served
	}
	return k, s.storage.Get(k, object.Key{Namespace: namespace, Name: name})
}

// accountClaims returns the claims of a token for a ServiceAccount.
func (s *Control) accountClaims(account *kinds.Record, audiences []string) claims {
	return claims{
		Subject: serviceaccount.MakeUsername(account.Key.Namespace, account.Key.Name), Audience: audiences, ID: s.newUID(),
		Kubernetes: &tokenBound{Namespace: account.Key.Namespace, ServiceAccount: tokenObject{account.Key.Name, account.Meta.GetUID()}},
	}
}

// bind binds a token to the object of a TokenRequest.
func (s *Control) bind(b *tokenBound, ref *authenticationv1.BoundObjectReference) error {
	resource, namespace, into := "", b.Namespace, (**tokenObject)(nil)
	switch gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		resource, into = "pods", &b.Pod
	case schema.GroupKind{Kind: "Secret"}:
		resource, into = "secrets", &b.Secret
	case schema.GroupKind{Kind: "Node"}:
		resource, namespace, into = "nodes", "", &b.Node
	default:
		return apierrors.NewBadRequest("cannot bind token to object of type " + gvk.String())
	}
	k, rec := s.core(resource, namespace, ref.Name)
	switch {
	case rec == nil:
		return kinds.NotFound(k, ref.Name)
	case ref.UID != "" && ref.UID != rec.Meta.GetUID():
		return apierrors.NewConflict(schema.GroupResource{Resource: ref.Kind}, ref.Name, errors.New("the UID in the bound object reference ("+string(ref.UID)+
			") does not match the UID in record. The object might have been deleted and then recreated"))
	}
	if pod, ok := rec.Obj.(*corev1.Pod); ok {
		if pod.Spec.ServiceAccountName != b.ServiceAccount.Name {
			return apierrors.NewBadRequest("cannot bind token for serviceaccount \"" + b.ServiceAccount.Name + "\" to pod running with different serviceaccount name.")
		}
		if node := pod.Spec.NodeName; node != "" {
			b.Node = &tokenObject{Name: node}
			if _, n := s.core("nodes", "", node); n != nil {
				b.Node.UID = n.Meta.GetUID()
			}
		}
	}
	*into = &tokenObject{ref.Name, rec.Meta.GetUID()}
	return nil
}

// Issue sets the status of a valid TokenRequest for a ServiceAccount.
func (s *Control) Issue(account *kinds.Record, t *authenticationv1.TokenRequest) error {
	c := s.accountClaims(account, t.Spec.Audiences)
	if ref := t.Spec.BoundObjectRef; ref != nil {
		if err := s.bind(c.Kubernetes, ref); err != nil {
			return err
		}
	}
	expires := time.Now().Add(time.Duration(*t.Spec.ExpirationSeconds) * time.Second)
	c.Expires = expires.Unix()
	t.Status.Token, t.Status.ExpirationTimestamp = s.tokens.sign(c), metav1.Time{Time: expires.UTC().Truncate(time.Second)}
	return nil
}

package controlplane

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Token makes a service account, if there is none of that name, and returns a token for it.
// config is an administrator's. The server refuses tokens for less than ten minutes; to end one
// earlier, delete the account.
func Token(ctx context.Context, config *rest.Config, namespace, name string, valid time.Duration) (string, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	accounts := clients.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("controlplane: a service account: %w", err)
	}
	seconds := int64(valid.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	request, err = accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("controlplane: a token: %w", err)
	}
	return request.Status.Token, nil
}

// TokenConfig returns what the client of a service account needs, which is made if there is
// none. RBAC knows it as "system:serviceaccount:namespace:name".
func (p *Plane) TokenConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := Token(ctx, p.Config(), namespace, name, time.Hour)
	if err != nil {
		return nil, err
	}
	config := p.anonymous()
	config.BearerToken = token
	return config, nil
}

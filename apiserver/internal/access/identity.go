package access

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// User is the user of a request. It is never modified after authentication.
type User = authenticationv1.UserInfo

type userKey struct{}

// UserOf returns the user of a request that was authenticated.
func UserOf(ctx context.Context) *User { return ctx.Value(userKey{}).(*User) }

const (
	anonymous       = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	masters         = "system:masters" // may do everything
)

// administrator is the user of Server.Config.
var administrator = &User{Username: "admin", Groups: []string{masters, authenticated}}

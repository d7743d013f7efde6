package access

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// The modes of constrained impersonation, in which u needs the verb impersonate:MODE for the
// other user and impersonate-on:MODE:VERB for the request. The mode "" is the older one, with the
// verb impersonate only.
const (
	associatedNode = "associated-node" // the node of the pod whose ServiceAccount u is
	arbitraryNode  = "arbitrary-node"
	serviceAccount = "serviceaccount"
	userInfo       = "user-info"
)

// checkImpersonation returns the first mode in which u may impersonate another user for a
// request. Its error is what u lacks in the first mode that is possible.
func (s *Control) checkImpersonation(u, as *User, request Attributes) (mode string, err error) {
	var first *Attributes
	var why string
	for _, mode := range impersonationModes(u, as) {
		lacks, reason := s.lacksFor(mode, u, as, request)
		if lacks == nil {
			return mode, nil
		}
		if first == nil {
			first, why = lacks, reason
		}
	}
	return "", s.deny(u, *first, why)
}

// impersonationModes returns the modes in which u could impersonate another user.
func impersonationModes(u, as *User) (modes []string) {
	node, isNode := nodeOf(as.Username)
	_, _, noAccount := serviceaccount.SplitUsername(as.Username)
	_, _, fromOther := serviceaccount.SplitUsername(u.Username)
	onlyName := as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0
	if onlyName && isNode && fromOther == nil && slices.Equal(u.Extra["authentication.kubernetes.io/node-name"], []string{node}) {
		modes = append(modes, associatedNode)
	}
	switch {
	case isNode && onlyName:
		modes = append(modes, arbitraryNode)
	case noAccount == nil && onlyName:
		modes = append(modes, serviceAccount)
	case !isNode && noAccount != nil:
		modes = append(modes, userInfo)
	}
	return append(modes, "")
}

// lacksFor returns the first thing that u is not allowed to do and that a mode requires, and the
// reason, or nil.
func (s *Control) lacksFor(mode string, u, as *User, request Attributes) (*Attributes, string) {
	var needs []Attributes
	verb, group := "impersonate", ""
	if mode != "" {
		request.Verb = "impersonate-on:" + mode + ":" + request.Verb
		needs = append(needs, request)
		verb, group = "impersonate:"+mode, authenticationv1.GroupName
	}
	who := Attributes{Verb: verb, Group: group, Resource: "users", Name: as.Username}
	if namespace, name, err := serviceaccount.SplitUsername(as.Username); err == nil {
		who.Resource, who.namespace, who.Name = "serviceaccounts", namespace, name
	}
	switch mode {
	case associatedNode:
		who.Resource, who.Name = "nodes", "*"
	case arbitraryNode:
		who.Resource = "nodes"
		who.Name, _ = nodeOf(as.Username)
	}
	needs = append(needs, who)
	for _, g := range as.Groups {
		needs = append(needs, Attributes{Verb: verb, Group: group, Resource: "groups", Name: g})
	}
	for key, values := range as.Extra {
		for _, v := range values {
			needs = append(needs, Attributes{Verb: verb, Group: authenticationv1.GroupName, Resource: "userextras", subresource: key, Name: v})
		}
	}
	if as.UID != "" {
		needs = append(needs, Attributes{Verb: verb, Group: authenticationv1.GroupName, Resource: "uids", Name: as.UID})
	}
	for _, a := range needs {
		if mode != "" && a.Resource == "groups" && a.Name == masters {
			return &a, "impersonating the system:masters group is not allowed"
		}
		if ok, reason := s.allowed(u, a); !ok {
			return &a, reason
		}
	}
	return nil, ""
}

// nodeOf returns the node of which a user name is.
func nodeOf(username string) (string, bool) {
	name, ok := strings.CutPrefix(username, "system:node:")
	return name, ok && name != ""
}

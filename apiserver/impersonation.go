package apiserver

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
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
func (s *Server) checkImpersonation(u, as *user, request attributes) (mode string, err error) {
	var first *attributes
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
func impersonationModes(u, as *user) (modes []string) {
	node, isNode := nodeOf(as.Username)
	_, _, isAccount := splitAccount(as.Username)
	_, _, fromAccount := splitAccount(u.Username)
	onlyName := as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0
	if onlyName && isNode && fromAccount && slices.Equal(u.Extra["authentication.kubernetes.io/node-name"], []string{node}) {
		modes = append(modes, associatedNode)
	}
	switch {
	case isNode && onlyName:
		modes = append(modes, arbitraryNode)
	case isAccount && onlyName:
		modes = append(modes, serviceAccount)
	case !isNode && !isAccount:
		modes = append(modes, userInfo)
	}
	return append(modes, "")
}

// lacksFor returns the first thing that u is not allowed to do and that a mode requires, and the
// reason, or nil.
func (s *Server) lacksFor(mode string, u, as *user, request attributes) (*attributes, string) {
	var needs []attributes
	verb, group := "impersonate", ""
	if mode != "" {
		request.verb = "impersonate-on:" + mode + ":" + request.verb
		needs = append(needs, request)
		verb, group = "impersonate:"+mode, authenticationv1.GroupName
	}
	who := attributes{verb: verb, group: group, resource: "users", name: as.Username}
	if namespace, name, ok := splitAccount(as.Username); ok {
		who.resource, who.namespace, who.name = "serviceaccounts", namespace, name
	}
	switch mode {
	case associatedNode:
		who.resource, who.name = "nodes", "*"
	case arbitraryNode:
		who.resource = "nodes"
		who.name, _ = nodeOf(as.Username)
	}
	needs = append(needs, who)
	for _, g := range as.Groups {
		needs = append(needs, attributes{verb: verb, group: group, resource: "groups", name: g})
	}
	for key, values := range as.Extra {
		for _, v := range values {
			needs = append(needs, attributes{verb: verb, group: authenticationv1.GroupName, resource: "userextras", subresource: key, name: v})
		}
	}
	if as.UID != "" {
		needs = append(needs, attributes{verb: verb, group: authenticationv1.GroupName, resource: "uids", name: as.UID})
	}
	for _, a := range needs {
		if mode != "" && a.resource == "groups" && a.name == masters {
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

// Package table renders objects as tables for kubectl, with the columns of kube-apiserver. [New] is the
// only entry. Custom resources bring their columns in their definition.
package table

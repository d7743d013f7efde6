// Package access decides who a client is and what it may do. [Control] authenticates tokens and
// impersonation, evaluates the stored roles and bindings, answers access reviews, and issues tokens.
// [Attributes] is what a request does, as far as rules see it.
package access

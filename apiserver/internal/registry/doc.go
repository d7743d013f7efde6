// Package registry reads and writes objects. [Registry] serves the verbs of resources and subresources; the
// same paths store what the server's own methods write, without a request. A write passes these steps:
//
//	request → read, patch or apply → managed fields → mutating webhooks → prepare and validate
//	        → validating webhooks → storage → garbage collection
//
// After a write, the registry does at once what controllers of a cluster do later: it serves the resources of
// a CustomResourceDefinition, deletes the content of namespaces and, if asked, the dependents of owners.
package registry

// Package ownership records in managed fields which manager wrote which field, with the field managers of
// apimachinery. [Ownership] has one for each version of a resource and subresource.
package ownership

// Package admission calls admission webhooks. [Webhooks] has those of the stored configurations, and an
// [Admission] is one write that they change and check.
package admission

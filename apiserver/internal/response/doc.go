// Package response sends what clients receive. [Responder] encodes objects, errors and pages as the client
// asked, compresses long responses, and limits the time to write them.
package response

// Package codec encodes and decodes objects, with apimachinery's serializers. A [Representation] is what a
// client accepts: an encoding, and objects, tables or metadata only. [Codecs] encodes each record once for all
// readers.
package codec

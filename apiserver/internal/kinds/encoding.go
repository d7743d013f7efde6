package kinds

// Encoding is a wire format.
type Encoding uint8

// The wire formats, and their number.
const (
	JSON Encoding = iota
	Protobuf
	YAML

	Encodings
)

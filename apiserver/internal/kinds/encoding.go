package kinds

// Encoding is a wire format.
type Encoding uint8

const (
	JSON Encoding = iota
	Protobuf
	YAML

	Encodings
)

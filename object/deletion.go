package object

// Deletion is a server's answer to the deletion of an object.
type Deletion struct {
	// UID is the UID of the object; empty if the answer does not have it.
	UID UID
	// Version is the version of the object in the answer: of its last state or, if finalizers or a
	// grace period delay the deletion, of its present one. It is empty if the answer has no object,
	// which then does not exist any more.
	Version Version
}

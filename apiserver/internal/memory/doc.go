// Package memory connects clients and the server in one process. [Listener] accepts what
// [Listener.Dial] opens, and [Conn] is one end of a connection. All blocking is on channels, so it
// works in a testing/synctest bubble, where a net.Pipe would stop the clock.
package memory

// Package memory connects clients and the server in one process. [Listener] accepts what
// [Listener.Dial] opens, and [Conn] is one end of a connection. A call that blocks waits on a
// channel or a sync.Cond, so connections work in a testing/synctest bubble, where a net.Pipe would stop the clock.
package memory

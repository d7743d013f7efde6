// Package journal keeps on disk what mirrors have received, so that a process that starts again continues where the
// last one ended instead of listing everything. tarn.WithJournal is how programs use it.
//
// There are six nouns:
//
//   - [Journal] is a folder, with a lock, a bound on its size and one on its age. It belongs to one process at a time.
//   - [Log] is the part of it that belongs to one mirror: a folder with segments.
//   - A segment is a file. It begins with a whole state and has every change after that, so the last segment that is
//     whole is enough to start from, and old ones are deleted as files. docs/journal.md describes the format.
//   - [Recorder] writes the log of a mirror, in the background.
//   - [Recording] writes one file with what several mirrors received and what controllers did, to look at later. [Events]
//     reads it, and the segments of a journal.
//   - [Source] begins the mirror with the log, and continues with the server.
//
// # Guarantees
//
//   - What [Log.Load] returns is a state that the mirror had, whatever byte the writer was killed at and whatever
//     happened to the file since: records have chained checksums, and one batch of the mirror is one record.
//   - A process that is killed loses at most what was not written yet; a machine that fails, what was written in the
//     last second.
//   - Writing never delays the mirror. A recorder that cannot keep up, or whose disk fails, drops what it has and
//     begins again with a whole state; [Recorder.Status] says so.
//   - Readers need no lock. They may read while the process that owns the folder writes.
//   - Files can be read by their owner only.
package journal

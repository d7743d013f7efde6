// Package tarntest runs controllers against an embedded API server in a test: one call starts the server, a
// cluster and its controllers, and ends them when the test ends, also after Fatal. If the test fails, it prints
// what the program logged and which requests it made.
//
//	func TestAWebsiteGetsADeployment(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := tarntest.Start(t, tarntest.Options{Controllers: addController})
//			if _, err := env.Server.Create(site); err != nil {
//				t.Fatal(err)
//			}
//			time.Sleep(time.Minute) // virtual
//			if _, err := tarntest.Get[*appsv1.Deployment](env, key); err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// In a testing/synctest bubble time is virtual; pass the bubble's T. Outside of one everything works in real
// time: replace the pause with [Env.Eventually], which works in both.
package tarntest

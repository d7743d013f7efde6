const status = await (await fetch("status")).json();
document.getElementById("console").textContent = JSON.stringify(status, null, 2);

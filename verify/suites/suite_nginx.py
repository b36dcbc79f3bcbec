"""nginx before itself and before php-fpm, with workers that have given up root's rights."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_run import CaseRun
from web import ALL_USERS, fetch, load, start_nginx, system_tool, write_files

WORKERS = "www-data"
UPSTREAM = "kept"

PHP_FPM = """
[global]
error_log = {folder}/php-fpm.log
daemonize = no
[www]
user = www-data
group = www-data
listen = 127.0.0.1:{port}
pm = static
pm.max_children = 4
chdir = {folder}/files
"""

ECHO = """<?php
$body = file_get_contents('php://input');
if (isset($_GET['sleep'])) usleep(intval($_GET['sleep']));
echo $_SERVER['REQUEST_METHOD'], ' ', strlen($body), ' ', md5($body), "\\n";
echo str_repeat('0123456789abcdef', intval($_GET['times'] ?? 1));
"""


@pytest.mark.root
def test_nginx_passes_requests_on_to_another_nginx(compare):
    compare("nginx.proxy_pass", proxy_pass, configuration=ALL_USERS)


@pytest.mark.root
def test_nginx_passes_requests_on_to_php(compare):
    compare("nginx.fastcgi_pass", fastcgi_pass, configuration=ALL_USERS)


def proxy_pass(case: CaseRun) -> str:
    files, back, front, closing = write_files(case), case.port(), case.port(), case.port()
    start_nginx(case, back, f"server {{ listen 127.0.0.1:{back}; root {files}; }}", "back", WORKERS)
    servers = f"""
    upstream {UPSTREAM} {{ server 127.0.0.1:{back}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{front};
        location / {{ proxy_pass http://{UPSTREAM}; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    }}
    server {{ listen 127.0.0.1:{closing}; location / {{ proxy_pass http://127.0.0.1:{back}; }} }}
    """
    start_nginx(case, front, servers, "front", WORKERS)
    answers = []
    for port in (front, closing):
        address = f"http://127.0.0.1:{port}"
        answers += [fetch(case, f"{address}/{name}") for name in ("small.txt", "large.bin", "missing")]
        answers.append(fetch(case, f"{address}/large.bin", "-r", "1000-2000"))
    answers.append(load(case, f"http://127.0.0.1:{front}/small.txt", {"client": front, "upstream": back}))
    answers.append(load(case, f"http://127.0.0.1:{closing}/small.txt", {"client": closing}))
    return "\n".join(answers)


def fastcgi_pass(case: CaseRun) -> str:
    files, php, front = write_files(case), case.port(), case.port()
    (files / "echo.php").write_text(ECHO)
    configuration = case.folder / "php-fpm.conf"
    configuration.write_text(PHP_FPM.format(folder=case.folder, port=php))
    case.serve(php, [php_fpm(), "-F", "-n", "-y", configuration, "-p", case.folder])
    servers = f"""
    upstream php {{ server 127.0.0.1:{php}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{front};
        location / {{
            fastcgi_pass php; fastcgi_keep_conn on; include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {files}/echo.php;
        }}
    }}
    """
    start_nginx(case, front, servers, user=WORKERS)
    address = f"http://127.0.0.1:{front}/echo.php"
    answers = [fetch(case, f"{address}?times=1"), fetch(case, f"{address}?times=300000")]
    answers.append(fetch(case, address, "--data-binary", f"@{files}/large.bin"))
    answers.append(load(case, f"{address}?sleep=2000", {"client": front, "upstream": php}, connections=4))
    return "\n".join(answers)


def php_fpm() -> str:
    """php-fpm, whose program Debian names by its version."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return str(found[-1]) if found else system_tool("php-fpm")

# A virtual environment, a wheel made by hand, pip, and what is installed by it.
# long
set -u
exec 2>&1

python3 -m venv env
echo "venv: $?"
cat >wheel.py <<'X'
import zipfile
name = "tiny-1.0"
with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tiny/__init__.py", "def main():\n    print('tiny runs')\n")
    wheel.writestr("tiny/data.txt", "data\n" * 1000)
    info = f"{name.replace('-', '-')}.dist-info"
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\ntiny = tiny:main\n")
    wheel.writestr(f"{info}/RECORD", "")
X
env/bin/python wheel.py
env/bin/pip install --no-index --disable-pip-version-check --no-cache-dir ./tiny-1.0-py3-none-any.whl 2>&1 | grep -v -i warning | tail -1
env/bin/tiny
env/bin/python -c 'import tiny, os; print(os.path.getsize(os.path.join(os.path.dirname(tiny.__file__), "data.txt")))'
env/bin/pip --disable-pip-version-check list 2>/dev/null | grep -i tiny
env/bin/pip uninstall -q -y tiny
env/bin/tiny
echo $?
find env -name '*.pyc' -delete
find env -type f | wc -l
rm -rf env
